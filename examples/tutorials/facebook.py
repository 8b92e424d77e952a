# needs: more/facebook

# %% [markdown]
# # Facebook pages: from raw files to a decision
#
# 22,470 pages that like each other, each a company, a government body, a politician or a TV show (Rozemberczki, Allen
# and Sarkar, *Multi-scale attributed node embedding*, 2021). The three files are read as they were published. We keep
# the classes of 2,000 pages, hide the others, and use the hidden ones to check the decisions.
#
# The data is not part of this package. To run this notebook, put `target.csv`, `edges.csv` and `features.json` into
# `more/facebook` in a folder that `GRAPHSDE_DATA` names.

# %%
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

import graphsde as gs
from graphsde.view.figures import RiskCoverageCurves

source = Path(os.environ["GRAPHSDE_DATA"]) / "more" / "facebook"
pages = pd.read_csv(source / "target.csv", dtype=str)
pages.head(4)

# %% [markdown]
# ## Hide all but 2,000 classes
#
# They are drawn at random: every guarantee below rests on that.

# %%
folder = Path("facebook")
folder.mkdir()
for name in ("edges.csv", "features.json"):
    shutil.copyfile(source / name, folder / name)

truth = pages["page_type"].to_numpy()
known = np.random.default_rng(1).permutation(len(pages))[:2000]
kept = pages.copy()
kept.loc[~kept.index.isin(known), "page_type"] = ""
kept.to_csv(folder / "target.csv", index=False)

# %% [markdown]
# ## Read and check
#
# Two options suffice: which column is the label, and which is a name to show. Descriptions become a bag of words, and the
# labelled pages are split into training, validation and test nodes.

# %%
graph = gs.read(folder, label="page_type", node_name="page_name")
print(gs.check(graph))

# %% [markdown]
# ## Fit
#
# `race=False` uses the first member that the rule proposes, without a race.

# %%
model = gs.LGNSDE(race=False, seed=0).fit(graph)
prediction = model.predict(graph)
figures = gs.evaluate(prediction, graph)
print(f"accuracy {figures['accuracy']:.3f} on {figures['n_test']} test pages, NLL {figures['nll']:.3f}")

# %% [markdown]
# ## Decide
#
# At most 5 % of the accepted pages may be wrong. The table shows which limits hold; the test pages serve as calibration set,
# since the split has no nodes set aside for it.

# %%
decisions = gs.decide(prediction, graph, max_error=0.05, model=model)
print(decisions)

# %% [markdown]
# The pages left for a person to review are ranked, with reasons:

# %%
review = decisions.review().to_pandas()
review[["rank", "name", "label", "confidence", "reason"]].head(6)

# %% [markdown]
# ## Check against the hidden classes
#
# In practice no one has such a list. Here it shows whether the guarantee was met.

# %%
hidden = ~graph.labelled
wrong = prediction.label != truth
accepted = (decisions.actions == "accept") & hidden
print(f"{accepted.sum():,} of {hidden.sum():,} pages accepted ({accepted.sum() / hidden.sum():.1%})")
print(f"wrong among them: {wrong[accepted].mean():.2%}; among all: {wrong[hidden].mean():.2%}")

# %% Error rate among the accepted pages against the share accepted, between an oracle and a random order
RiskCoverageCurves.of({"lgnsde": (prediction.total[hidden], wrong[hidden])}).matplotlib()

# %% [markdown]
# This is one draw of 2,000 labels. A guarantee of 95 % may fail in one draw of twenty: for ten draws and their
# errors see [decide](../decide.md).
