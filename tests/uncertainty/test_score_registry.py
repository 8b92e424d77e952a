"""The one call for all scores: names, what they need, which way they point."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.scores import SCORES, available_scores, propagate, score

NAMES = [
    "total",
    "epistemic",
    "entropy",
    "expected-entropy",
    "mutual-information",
    "msp",
    "margin",
    "energy",
    "gnnsafe",
    "gnsd",
    "variance",
    "variation-ratio",
    "expected-pairwise-kl",
    "vacuity",
    "dissonance",
    "odin",
    "differential-entropy",
    "predicted-evidence",
    "mahalanobis",
    "gebm",
    "ood",
]
# these ask for an embedding, for the model or for training nodes: see their own tests
FROM_PREDICTIONS = [name for name in NAMES if name not in ("odin", "mahalanobis", "gebm", "ood")]


def half_uncertain(kind: str) -> Prediction:
    """Nodes 0..9 are clear to every sample; nodes 10..19 are doubtful within samples and disputed between them."""
    rng = np.random.default_rng(3)
    names = ("a", "b", "c")
    if kind == "dirichlet":
        alpha = np.ones((20, 3))
        alpha[:10, 0] += rng.uniform(80, 120, 10)
        alpha[10:] += rng.uniform(1, 2, (10, 3))
        probs = (alpha / alpha.sum(-1, keepdims=True))[None]
        return ClassPrediction(probs, np.arange(20), names, "dirichlet", logits=np.log(alpha)[None], alpha=alpha)
    logits = np.zeros((6, 20, 3))
    logits[:, :10, 0] = rng.uniform(7, 9, (6, 10))
    for s in range(6):
        logits[s, 10:, s % 3] = rng.uniform(1, 2, 10)
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    if kind == "deterministic":
        logits, probs = logits[:1], probs[:1]
    return ClassPrediction(probs, np.arange(20), names, kind, logits=logits)  # type: ignore[arg-type]


def two_cliques() -> np.ndarray:
    return np.kron(np.eye(2), np.ones((10, 10))) - np.eye(20)


def test_all_names_are_registered_with_their_facts() -> None:
    assert sorted(SCORES) == sorted(NAMES)
    for facts in SCORES.describe():
        assert facts["summary"] and facts["paper"] and 1900 < facts["year"] < 2030
        parts = {"probs", "samples", "logits", "alpha", "graph", "embedding", "model", "gradient", "train", "val"}
        assert set(facts["needs"]) <= parts
        assert facts["direction"] == "higher = more uncertain"


@pytest.mark.parametrize("name", [*FROM_PREDICTIONS, "entropy+propagated", "msp+propagated"])
def test_uncertain_half_scores_higher(name, make_graph) -> None:
    graph = make_graph(two_cliques())
    tried = 0
    for kind in ("deterministic", "samples", "dirichlet"):
        prediction = half_uncertain(kind)
        if name.partition("+")[0] in available_scores(prediction, graph):
            values = score(name, prediction, graph)
            assert values.shape == (20,) and values.dtype == np.float64
            assert values[10:].min() > values[:10].max(), kind
            tried += 1
    assert tried


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("deterministic", {"epistemic", "mutual-information", "variance", "variation-ratio", "expected-pairwise-kl"}),
        ("samples", set()),
        ("dirichlet", {"variation-ratio"}),
    ],
)
def test_available_scores_are_those_that_do_not_refuse(kind, missing, make_graph) -> None:
    prediction, graph = half_uncertain(kind), make_graph(two_cliques())
    missing = missing | (
        set() if kind == "dirichlet" else {"vacuity", "dissonance", "differential-entropy", "predicted-evidence"}
    )
    assert set(FROM_PREDICTIONS) - set(available_scores(prediction, graph)) == missing
    for name in missing:
        with pytest.raises(BadUsage) as caught:
            score(name, prediction, graph)
        assert caught.value.code == "E-SCORE" and name in caught.value.message and caught.value.fix


def test_missing_parts_are_named(make_graph) -> None:
    prediction = half_uncertain("samples")
    with pytest.raises(BadUsage, match="logits") as caught:
        score("energy", replace(prediction, logits=None))
    assert caught.value.code == "E-SCORE"
    for name in ("gnnsafe", "entropy+propagated"):
        with pytest.raises(BadUsage, match="no graph"):
            score(name, prediction)
    single = replace(prediction, probs=prediction.probs[:1], logits=None)
    for name in ("variance", "mutual-information", "expected-pairwise-kl", "variation-ratio"):
        with pytest.raises(BadUsage, match="only one"):
            score(name, single)


def test_what_learned_scores_lack_is_named(make_graph) -> None:
    prediction = half_uncertain("samples")
    learned = replace(prediction, embedding=np.ones((20, 2)))
    train = np.arange(20) < 5
    with_nodes, without = make_graph(two_cliques(), train=train), make_graph(two_cliques())
    for name, given, graph, words in (
        ("mahalanobis", prediction, with_nodes, "embeddings"),
        ("mahalanobis", learned, None, "no graph"),
        ("mahalanobis", learned, without, "training nodes"),
        ("mahalanobis", learned, make_graph(two_cliques(), train=~train & train), "training nodes"),
        ("odin", prediction, with_nodes, "further predictions"),
        ("gebm", learned, with_nodes, "further predictions"),
        ("gebm", replace(learned, logits=None), with_nodes, "logits"),
    ):
        with pytest.raises(BadUsage, match=words) as caught:
            score(name, given, graph)
        assert caught.value.code == "E-SCORE" and name in caught.value.message and caught.value.fix
    assert "mahalanobis" in available_scores(learned, with_nodes)
    assert not {"mahalanobis", "odin", "gebm"} & set(available_scores(learned, without))


def test_a_step_along_a_gradient_is_not_offered_for_a_model_without_one(make_graph) -> None:
    class Still:
        has_feature_gradient = False

    prediction, graph = half_uncertain("samples"), make_graph(two_cliques())
    assert "odin" in available_scores(prediction, graph, object())
    assert "odin" not in available_scores(prediction, graph, Still())
    with pytest.raises(BadUsage, match="gradient") as caught:
        score("odin", prediction, graph, Still())
    assert caught.value.code == "E-SCORE" and caught.value.fix


def test_a_score_that_points_the_wrong_way_is_refused() -> None:
    with pytest.raises(BadUsage, match="wrong direction"):
        SCORES.add("test-confidence", lambda p: p.confidence, summary="", direction="higher = more certain")
    assert "test-confidence" not in SCORES


def test_unknown_names_and_options() -> None:
    prediction = half_uncertain("samples")
    with pytest.raises(UnknownName, match="entropy"):
        score("entropi", prediction)
    with pytest.raises(UnknownName, match="propagated"):
        score("entropy+propagate", prediction)
    with pytest.raises(BadUsage, match="temperature"):
        score("entropy", prediction, temperature=2.0)
    with pytest.raises(BadUsage, match="positive"):
        score("energy", prediction, temperature=0.0)


def test_gnnsafe_is_propagated_energy_and_options_find_their_way(make_graph) -> None:
    prediction, graph = half_uncertain("samples"), make_graph(two_cliques())
    options = {"temperature": 2.0, "alpha": 0.3, "steps": 3}
    expected = propagate(score("energy", prediction, temperature=2.0), graph, alpha=0.3, steps=3)
    assert np.allclose(score("gnnsafe", prediction, graph, **options), expected, atol=1e-12)
    assert np.allclose(score("energy+propagated", prediction, graph, **options), expected, atol=1e-12)


def test_a_score_of_ones_own_is_found_by_name() -> None:
    name = "test-least-class"
    SCORES.add(name, lambda prediction, *, power=1: prediction.mean.min(-1) ** power, summary="", needs=("probs",))
    try:
        prediction = half_uncertain("deterministic")
        assert np.array_equal(score(name, prediction, power=2), prediction.mean.min(-1) ** 2)
    finally:
        SCORES._entries.pop(name)


def test_importing_scores_stays_light() -> None:
    code = (
        "import sys, graphsde.uncertainty.scores;"
        "heavy = ('sklearn', 'torch_geometric', 'networkx', 'plotly', 'matplotlib', 'pyarrow');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
