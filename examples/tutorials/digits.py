# %% [markdown]
# # Digits: from images to decisions
#
# The graph `digits` comes with the package: 1,797 small images of handwritten digits, each joined to the images that
# look most like it. We fit a model, see where it is uncertain, decide which answers can be used without review, and ask
# what to label next. This takes about a minute and needs no network.

# %%
import numpy as np

import graphsde as gs
from graphsde.view.figures import RiskCoverageCurves, UncertaintyScatter

graph = gs.load("digits")
graph

# %% [markdown]
# ## Split
#
# All labels are known here. To have something to decide on, we pretend that only 60 % are: 10 % to train on, 10 % to choose
# the epoch, 40 % to calibrate. The other 40 % are test nodes, which we use to check the result at the end.

# %%
graph = gs.split(graph, "fractions", train=0.1, val=0.1, calibration=0.4, test=0.4)
{role: int(mask.sum()) for role, mask in graph.masks.items()}

# %% [markdown]
# `gs.check` reports what is unusual about a graph before anything is fitted. The line on homophily matters most: if
# neighbours rarely share a class, edges help little.

# %%
print(gs.check(graph))

# %% [markdown]
# ## Fit and predict
#
# `LGNSDE()` takes its settings from the graph: a rule proposes members of one family, and a short race on the validation
# nodes picks one.

# %%
model = gs.LGNSDE(seed=0).fit(graph)
prediction = model.predict(graph)
figures = gs.evaluate(prediction, graph)
for name in ("accuracy", "nll", "ece", "aurc", "misclassification_auroc"):
    print(f"{name:>24}  {figures[name]:.4f}")

# %% [markdown]
# ## Does the uncertainty know where the errors are?
#
# If we keep only the most certain answers, fewer of them should be wrong. The curve shows how many; the closer it is to
# the oracle, the better the ranking.

# %% Error rate among the accepted test images against the share accepted, between an oracle and a random order
test = graph.test_mask
wrong = (prediction.index != graph.labels)[test]
RiskCoverageCurves.of({"lgnsde": (prediction.total[test], wrong)}).matplotlib()

# %% [markdown]
# These are the images that the model is least certain about. It is easy to see why.

# %% The eight most uncertain test images, each with the two likeliest classes and their probabilities
from matplotlib.figure import Figure

worst = np.flatnonzero(test)[np.argsort(-prediction.total[test])[:8]]
figure = Figure(figsize=(7.6, 2.1), layout="constrained")
for axes, node in zip(figure.subplots(1, 8), worst, strict=True):
    axes.imshow(graph.features[node].reshape(graph.image_shape), cmap="gray_r")
    first, second = np.argsort(-prediction.mean[node])[:2]
    lines = [f"{graph.class_names[c]}: {prediction.mean[node, c]:.0%}" for c in (first, second)]
    axes.set_title("\n".join(lines), fontsize=9)
    axes.set_axis_off()
figure

# %% [markdown]
# Total uncertainty has two parts. *Aleatoric* uncertainty remains with any number of labels: the image itself is
# ambiguous. *Epistemic* uncertainty is what the training nodes leave unknown, and falls with more labels.

# %% Aleatoric against epistemic uncertainty of the test images, right and wrong answers marked
UncertaintyScatter(prediction.aleatoric[test], prediction.epistemic[test], ~wrong, prediction.ids[test]).matplotlib()

# %% [markdown]
# ## Decide
#
# Which answers can be used without review, if at most 3 % of them may be wrong?

# %%
decisions = gs.decide(prediction, graph, max_error=0.03, model=model)
print(decisions)

# %% [markdown]
# The guarantee rests on the calibration nodes, whose labels training never saw. The test labels, which `decide` never
# saw, show how it went:

# %%
accepted = (decisions.actions == "accept") & test
errors = (prediction.index != graph.labels)[accepted]
print(f"{accepted.sum()} of {test.sum()} test images accepted, {errors.sum()} of them wrong ({errors.mean():.2%})")
print(f"without a choice: {wrong.mean():.2%} wrong")

# %% [markdown]
# ## Sets instead of single answers
#
# A conformal set contains the true class for at least 99 % of the nodes, on average over draws of the calibration nodes.
# It is small if the answer is clear.

# %%
conformal = gs.conformalize(prediction, graph, confidence_level=0.99)
sets = conformal.predict_set(prediction)[test]
covered = sets[np.arange(len(sets)), graph.labels[test]]
print(f"covered: {covered.mean():.1%}; sizes: {dict(enumerate(np.bincount(sets.sum(1)).tolist()))}")

# %% [markdown]
# ## What to label next, and why is this node uncertain?

# %%
for question in gs.ask(prediction, graph, budget=5):
    print(f"{question.rank}. image {question.id}, predicted {question.predicted}: {question.reason}")

# %%
for sentence in gs.explain(model, graph, int(worst[0])).sentences:
    print(sentence)

# %% [markdown]
# Read on: [the guarantees in pictures](../guarantees.md), [decide](../decide.md) in full, [labels](../labels.md),
# [explain](../explain.md).
