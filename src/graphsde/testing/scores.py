"""What every score guarantees, as checks for your own score.

Example: ``gs.testing.check_score("my-score")``, or one by one in a test file of yours::

    import pytest
    from graphsde.testing.scores import SCORE_CHECKS, ScoreCase

    @pytest.mark.parametrize("check", SCORE_CHECKS, ids=lambda c: c.__name__)
    def test_contract(check):
        check(ScoreCase("my-score"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from graphsde.base.seeds import numpy_stream
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.models import GCN, GPN, MCDropout, Model
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.testing.contract import contract as contract_of
from graphsde.testing.contract import expect, run_checks, untouched_randomness
from graphsde.testing.models import contract_graph
from graphsde.uncertainty.scores import SCORES, available_scores, score
from graphsde.uncertainty.scores.registry import DIRECTION

SAMPLES = 6
ScoreCheck = Callable[["ScoreCase"], None]
SCORE_CHECKS: list[ScoreCheck] = []
contract = contract_of(SCORE_CHECKS)


class ScoreCase:
    """A score, and three small fitted models whose predictions are of the three kinds.

    Args:
        name: that it is registered under.
        options: of the score.
    """

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self.options, self.graph = name, options, contract_graph()

    def of(self, prediction: Prediction, graph: Graph, model: Model | None) -> np.ndarray:
        return score(self.name, prediction, graph, model, **self.options)

    def answers(self) -> Iterator[tuple[Model, Prediction]]:
        """The models whose predictions the score is defined for, and these."""
        for model in fitted_models():
            prediction = model.predict(self.graph, samples=SAMPLES)
            if self.name in available_scores(prediction, self.graph, model):
                yield model, prediction


@cache
def fitted_models() -> tuple[Model, ...]:
    """One that is deterministic, one with samples, one with Dirichlet concentrations."""
    graph = contract_graph()
    return (
        GCN(epochs=5, hidden=8).fit(graph),
        MCDropout(epochs=5, hidden=8).fit(graph),
        GPN(epochs=5, hidden=8, latent=4, flow_layers=2).fit(graph),
    )


@contract
def is_registered_with_a_summary(case: ScoreCase) -> None:
    expect(case.name in SCORES, 'register it with @gs.register.score("name")')
    expect(SCORES.entry(case.name).summary, "a summary of one line")


@contract
def is_defined_for_some_prediction(case: ScoreCase) -> None:
    expect(list(case.answers()), "its needs and kinds fit none of three models: one answer, samples, Dirichlet")


@contract
def is_one_number_per_node(case: ScoreCase) -> None:
    for model, prediction in case.answers():
        values = case.of(prediction, case.graph, model)
        expect(values.shape == (case.graph.num_nodes,), f"[N] = [{case.graph.num_nodes}], not {values.shape}")
        expect(not np.isnan(values).any(), "no NaN")


@contract
def the_same_question_has_the_same_answer(case: ScoreCase) -> None:
    for model, prediction in case.answers():
        one, two = (case.of(prediction, case.graph, model) for _ in range(2))
        expect(np.array_equal(one, two), "two calls give the same bits")


@contract
def does_not_touch_global_randomness(case: ScoreCase) -> None:
    for model, prediction in case.answers():
        with untouched_randomness():
            case.of(prediction, case.graph, model)


@contract
def leaves_the_prediction_alone(case: ScoreCase) -> None:
    for model, prediction in case.answers():
        arrays = [one for one in vars(prediction).values() if isinstance(one, np.ndarray)]
        before = [array.copy() for array in arrays]
        case.of(prediction, case.graph, model)
        expect(all(np.array_equal(x, y) for x, y in zip(before, arrays, strict=True)), "nothing changed in place")


@contract
def the_order_of_nodes_does_not_matter(case: ScoreCase) -> None:
    order = numpy_stream(0, "contract", "order").permutation(case.graph.num_nodes)
    for model, prediction in case.answers():
        values = case.of(prediction, case.graph, model)
        other = case.graph.subgraph(order)
        permuted = case.of(model.predict(other, samples=SAMPLES), other, model)
        expect(np.allclose(permuted, values[order], rtol=1e-3, atol=1e-4), "permuted nodes, permuted values")


@contract
def only_training_labels_are_read(case: ScoreCase) -> None:
    labels, train = case.graph.labels, case.graph.train_mask
    assert labels is not None and train is not None
    other = case.graph.with_labels(np.where(train, labels, (labels + 1) % 3))
    for model, prediction in case.answers():
        same = np.array_equal(case.of(prediction, case.graph, model), case.of(prediction, other, model))
        expect(same, "labels that a model may not see don't matter")


@contract
def higher_is_more_uncertain(case: ScoreCase) -> None:
    """For a score of the outputs alone; one that predicts again, or learns from embeddings, is not checked."""
    facts = SCORES.entry(case.name).facts
    expect(facts["direction"] == DIRECTION, f"the direction is '{DIRECTION}'")
    clique = np.stack(np.nonzero(np.triu(np.kron(np.eye(2), np.ones((10, 10))), 1)))
    graph = from_arrays(np.zeros((20, 1)), clique, labels=np.arange(20) % 3, class_names=["a", "b", "c"])
    for prediction in half_doubtful():
        if set(facts.get("needs", ())) <= {"probs", "samples", "logits", "alpha", "graph"} and (
            case.name in available_scores(prediction, graph)
        ):
            values = case.of(prediction, graph, None)
            words = f"uncertain nodes have {values[10:].mean():.3g} on average, certain ones {values[:10].mean():.3g}"
            expect(values[10:].mean() > values[:10].mean(), words)


def half_doubtful() -> Iterator[Prediction]:
    """Of each kind: ten nodes that every sample is certain about, then ten that are uncertain and disputed."""
    rng, ids, names = numpy_stream(0, "contract", "doubt"), np.arange(20), ("a", "b", "c")
    logits = np.zeros((SAMPLES, 20, 3))
    logits[:, :10, 0] = rng.uniform(7, 9, (SAMPLES, 10))
    for sample in range(SAMPLES):
        logits[sample, 10:, sample % 3] = rng.uniform(1, 2, 10)
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    yield ClassPrediction(probs[:1], ids, names, "deterministic", logits=logits[:1])
    yield ClassPrediction(probs, ids, names, "samples", logits=logits)
    alpha = 1.0 + rng.uniform(1, 2, (20, 3))
    alpha[:10, 0] += 100.0
    shares = (alpha / alpha.sum(-1, keepdims=True))[None]
    yield ClassPrediction(shares, ids, names, "dirichlet", logits=np.log(alpha)[None], alpha=alpha)


def check_score(which: str | Callable[..., np.ndarray], **options: Any) -> int:
    """Check a score against everything that scores guarantee.

    Args:
        which: the registered function, or its name.
        options: of the score.

    Returns and raises as :func:`~graphsde.testing.models.check_model`.
    """
    known = which if isinstance(which, str) else next((n for n in SCORES if SCORES.get(n) is which), "")
    case = ScoreCase(known, **options)
    return run_checks(SCORE_CHECKS, lambda: (case,))
