"""The evidence: against loops written out, what it may read and what it must not, and graphs at the edge."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.memory import within_memory
from graphsde.datasets import shifts
from graphsde.datasets.splits import make_split
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.settled import settled
from graphsde.nn import encoding
from graphsde.uncertainty import evidence as module
from graphsde.uncertainty.evidence import Evidence, evidence_of, leading_directions, reference_nodes, upper_tail
from graphsde.uncertainty.mismatch import feature_mismatch
from graphsde.uncertainty.scores import propagate
from graphsde.uncertainty.surrogates import mix_features

from support import block_graph, needs_real_data


def masks(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    role = np.random.default_rng(seed).permutation(n) % 10
    return {"train_mask": role < 3, "val_mask": (role >= 3) & (role < 6), "test_mask": role >= 6}


def words_graph(n: int = 60, columns: int = 200) -> Graph:
    """Sparse counts on more columns than axes, and fewer nodes than axes: the axes then span all rows."""
    rng = np.random.default_rng(1)
    labels = np.arange(n) % 3
    rates = np.full((3, columns), 0.02) + 0.2 * (np.arange(columns) % 3 == np.arange(3)[:, None])
    words = sp.csr_array(rng.poisson(rates[labels]).astype(np.float32))
    edges = np.stack(np.nonzero(np.triu(rng.random((n, n)) < np.where(labels[:, None] == labels, 0.2, 0.03), 1)))
    return from_arrays(words, edges, labels=labels, class_names=["a", "b", "c"], **masks(n))


def written_out(graph: Graph) -> tuple[np.ndarray, float, float]:
    """The evidence in loops, and which power and width it selects."""
    x = graph.features.toarray() if graph.is_sparse else graph.features
    x = np.asarray(x, dtype=np.float64)
    x = x / np.abs(x).sum(1, keepdims=True) if graph.is_sparse else (x - x.mean(0)) / x.std(0)
    looped = graph.adjacency.matrix.toarray() + np.eye(graph.num_nodes)
    degree = looped.sum(1)
    operator = looped / np.sqrt(np.outer(degree, degree))
    z = x
    for _ in range(4):
        z = 0.9 * operator @ z + 0.1 * x
    z = z - z.mean(0)
    # in the space that the rows span: directions without variance are no axes
    _, lengths, axes = np.linalg.svd(x, full_matrices=False)
    basis = axes[:128][lengths[:128] > 1e-9]
    z = z @ basis.T
    variance, rotation = np.linalg.eigh(z.T @ z / len(z))
    train, val = graph.train_mask, np.flatnonzero(graph.val_mask)
    best = None
    for power in (0.0, 0.5):
        scale = np.sqrt(np.maximum(variance, 0) + 1e-3 * variance.mean()) ** power
        q = z @ rotation / scale
        q /= np.linalg.norm(q, axis=1, keepdims=True)
        for width in (0.05, 0.1, 0.2):
            e = np.empty(len(z))
            for i in range(len(z)):
                near = []
                for c in range(graph.num_classes):
                    others = [j for j in np.flatnonzero(train & (graph.labels == c)) if j != i]
                    near.append(np.mean([np.exp(q[i] @ q[j] / width) for j in others]))
                e[i] = -np.log(max(near) / np.mean([np.exp(q[i] @ q[j] / width) for j in range(len(z)) if j != i]))
            objective = np.mean(-e[val]) - np.log(np.mean(np.exp(-e)))
            if best is None or objective > best[0]:
                best = (objective, e, power, width)
    assert best is not None
    return best[1:]


@pytest.mark.parametrize("graph", [block_graph(per_class=14), words_graph()], ids=["numbers", "words"])
def test_against_loops(graph: Graph) -> None:
    expected, power, width = written_out(graph)
    found = Evidence.fit(graph)
    assert (found.power, found.width) == (power, width)
    np.testing.assert_allclose(found.values, expected, rtol=2e-4, atol=2e-4)
    # without the class that is nearest nothing looks more familiar
    assert found.without_nearest is not None and (found.without_nearest >= found.values).all()


def test_the_kernel_of_a_node_with_itself_is_no_part_of_it() -> None:
    graph = gs.synthetic(3000, seed=1, classes=4)
    graph = make_split(graph, "uniform-10-10-80", seed=0).apply(graph)
    found = Evidence.fit(graph)
    inside = np.zeros(graph.num_nodes, dtype=bool)
    inside[found._background.rows] = True
    assert inside.sum() == 2000
    test = graph.test_mask
    one, two = found.values[test & inside], found.values[test & ~inside]
    error = np.sqrt(one.var() / len(one) + two.var() / len(two))
    assert abs(one.mean() - two.mean()) < 4 * error  # with itself in it the background would look unfamiliar
    order = np.random.default_rng(0).permutation(graph.num_nodes)  # the draw goes by ids, not by places
    np.testing.assert_allclose(Evidence.fit(graph.subgraph(order)).values, found.values[order], atol=1e-3)


def test_the_same_graph_has_the_same_evidence_and_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_graph()
    assert np.array_equal(Evidence.fit(graph).values, Evidence.fit(dataclasses.replace(graph)).values)
    kept = evidence_of(graph)
    monkeypatch.setattr(Evidence, "fit", lambda *_, **__: pytest.fail("fitted again"))
    assert evidence_of(graph) is kept


def test_what_is_kept_does_not_keep_the_graph() -> None:
    graph = block_graph()
    evidence_of(graph)
    there = weakref.ref(graph)
    del graph
    gc.collect()
    assert there() is None


def test_the_order_of_nodes_and_of_classes_does_not_matter() -> None:
    for graph in (block_graph(), words_graph()):
        values = Evidence.fit(graph).values
        order = np.random.default_rng(0).permutation(graph.num_nodes)
        np.testing.assert_allclose(Evidence.fit(graph.subgraph(order)).values, values[order], atol=1e-4)
        turned = graph.with_labels((graph.labels + 1) % 3)
        np.testing.assert_allclose(Evidence.fit(turned).values, values, atol=1e-5)


@pytest.mark.parametrize("size", [1, 7, 600])
def test_blocks_of_any_size_give_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_graph()
    values = Evidence.fit(graph).values
    monkeypatch.setattr(module, "_KERNELS_AT_ONCE", size * 30)
    monkeypatch.setattr(module, "_COLUMNS_AT_ONCE", 3)
    np.testing.assert_allclose(Evidence.fit(graph).values, values, atol=1e-5)


@pytest.mark.parametrize("columns", [5, 200])  # fewer and more than there are axes
def test_a_large_graph_has_the_same_evidence_with_files_for_room(
    columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graph = gs.split(gs.synthetic(300, classes=3, features=columns))
    whole, made = Evidence.fit(graph), mix_features(graph, reference_nodes(graph))
    mixed = whole.of(made), feature_mismatch(made, whole.encoder)
    monkeypatch.setattr(module, "_MANY_NODES", 299)  # so that few columns are averaged at once
    monkeypatch.setattr(encoding, "NUMBERS_AT_ONCE", 1000)
    monkeypatch.setattr(shifts, "ROWS_AT_ONCE", 70)
    other = settled(graph, tmp_path)
    with within_memory(2**16):
        again = Evidence.fit(other)
        made = mix_features(other, reference_nodes(other))
        assert isinstance(made.features, np.memmap)
        assert np.array_equal(again.of(made), mixed[0])
        assert np.array_equal(feature_mismatch(made, again.encoder), mixed[1])
    assert np.array_equal(again.values, whole.values) and np.array_equal(again.propagated, whole.propagated)


def test_a_copy_with_nothing_shifted_is_the_graph_itself() -> None:
    graph = block_graph()
    found = Evidence.fit(graph)
    assert np.array_equal(found.of(dataclasses.replace(graph)), found.values)
    assert np.array_equal(found.tail_share(graph), found.tail_share())
    # nodes are known by their ids, wherever they stand, and others may be gone
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    np.testing.assert_allclose(found.of(graph.subgraph(order)), found.values[order], atol=1e-5)
    alone = found.of(graph.with_adjacency(type(graph.adjacency)(sp.csr_array((30, 30)))).subgraph(np.array([4])))
    assert alone.shape == (1,) and np.isfinite(alone).all()


def test_labels_of_test_and_ood_nodes_are_not_read() -> None:
    graph = block_graph()
    ood = graph.test_mask & (np.arange(30) % 2 == 0)
    roles = {**graph.masks, "ood": ood}
    values = Evidence.fit(graph.with_masks(**roles)).values
    rng = np.random.default_rng(0)
    for new in (rng.integers(0, 3, 30), np.full(30, -1)):
        labels = np.where(graph.train_mask | graph.val_mask, graph.labels, new)
        assert np.array_equal(Evidence.fit(graph.with_masks(**roles).with_labels(labels)).values, values)
    assert np.array_equal(Evidence.fit(graph).values, values)  # nor does it know which nodes are OOD
    # validation nodes count only as nodes of known classes, whichever these are
    labels = np.where(graph.val_mask, (graph.labels + 1) % 3, graph.labels)
    assert np.array_equal(Evidence.fit(graph.with_labels(labels)).values, values)


def test_alone_a_node_does_not_see_other_unknown_nodes() -> None:
    graph = block_graph()
    far = 10  # ten test nodes without an edge to the rest
    rng = np.random.default_rng(2)

    def with_strangers(features: np.ndarray) -> Graph:
        edges = graph.adjacency.edge_index()
        more = {name: np.append(mask, np.full(far, name == "test")) for name, mask in graph.masks.items()}
        whole = from_arrays(
            np.concatenate([graph.features, features]), edges, labels=np.append(graph.labels, np.full(far, -1)),
            class_names=list(graph.class_names),
        )  # fmt: skip
        return whole.with_masks(**more)

    one, two = (with_strangers(rng.normal(size=(far, 8), scale=s).astype(np.float32)) for s in (1.0, 4.0))
    own = slice(0, 30)
    assert np.array_equal(Evidence.fit(one, alone=True).values[own], Evidence.fit(two, alone=True).values[own])
    assert not np.allclose(Evidence.fit(one).values[own], Evidence.fit(two).values[own], atol=1e-3)
    # and each of the strangers is judged by itself
    fitted = Evidence.fit(one, alone=True)
    features = one.features.copy()
    features[-1] += 3.0
    moved = fitted.of(one.with_features(features))
    assert np.array_equal(moved[:-1], fitted.values[:-1]) and moved[-1] != fitted.values[-1]


def test_tail_shares_are_ranks_among_validation_nodes() -> None:
    graph = block_graph()
    found = Evidence.fit(graph)
    spread = propagate(found.values, graph)
    held_out = spread[graph.val_mask]
    expected = [(1 + sum(v >= x for v in held_out)) / (len(held_out) + 1) for x in spread]
    np.testing.assert_allclose(found.tail_share(), expected, rtol=1e-12)
    assert upper_tail(np.array([-np.inf, np.inf]), np.sort(held_out)).tolist() == [1.0, 1 / 7]


def test_an_unknown_class_looks_unfamiliar() -> None:
    graph = block_graph(per_class=40, seed=3)
    known = graph.labels != 2
    roles = {name: mask & known for name, mask in graph.masks.items() if name != "test"}
    graph = graph.with_masks(**roles, test=graph.test_mask & known, ood=~known)
    share = Evidence.fit(graph).tail_share()
    assert np.median(share[graph.ood_mask]) < 0.1 < np.median(share[graph.test_mask])


def ring(features: np.ndarray, labels: np.ndarray, **more: object) -> Graph:
    n = len(labels)
    return from_arrays(features, np.stack([np.arange(n - 1), np.arange(1, n)])[:, :-2], labels=labels, **more)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("case", ["one-hot", "one class", "constant", "one each", "text", "no validation", "isolated"])
def test_graphs_at_the_edge(case: str, alone: bool) -> None:
    n, rng = 40, np.random.default_rng(0)
    features, labels, roles = rng.normal(size=(n, 4)).astype(np.float32), np.arange(n) % 2, masks(n)
    more: dict[str, object] = {}
    if case == "one-hot":
        features = np.eye(7, dtype=np.float32)[rng.integers(0, 7, n)]
    elif case == "one class":
        labels = np.where(roles["train_mask"], 0, labels)
    elif case == "constant":
        features = np.full((n, 4), 3.7, dtype=np.float32)
    elif case == "one each":
        roles["train_mask"] = np.arange(n) < 2
        roles["val_mask"] = (np.arange(n) >= 2) & (np.arange(n) < 12)
        roles["test_mask"] = np.arange(n) >= 12
    elif case == "text":
        more["categorical"] = {"colour": [["red", "blue", None][i % 3] for i in range(n)]}
    elif case == "no validation":
        roles["val_mask"] = np.zeros(n, dtype=bool)
    graph = ring(features, labels, class_names=["a", "b"], **roles, **more)
    if case == "isolated":
        graph = graph.with_adjacency(type(graph.adjacency)(sp.csr_array((n, n))))
    found = Evidence.fit(graph, alone=alone)
    assert np.isfinite(found.values).all() and found.values.shape == (n,)
    assert (found.tail_share() > 0).all() and (found.tail_share() <= 1).all()
    assert (found.without_nearest is None) == (case == "one class")
    if case == "constant":
        assert np.abs(found.values).max() < 1e-5  # nothing to tell anybody by
    if case == "no validation":
        assert np.array_equal(reference_nodes(graph), np.flatnonzero(graph.train_mask))


def test_what_is_missing_is_named() -> None:
    graph = block_graph()
    for bad, code in (
        (graph.without_target(), "E-SCORE"),
        (graph.with_masks(test=graph.test_mask), "E-SCORE"),
        (gs.load("diabetes"), "E-TARGET"),
    ):
        with pytest.raises(BadUsage) as caught:
            Evidence.fit(bad)
        assert caught.value.code == code and caught.value.fix


@pytest.mark.parametrize("kind", ["sparse", "dense", "doubles", "few rows"])
def test_directions_are_those_of_scikit_learn_to_the_bit(kind: str) -> None:
    from sklearn.utils.extmath import randomized_svd

    rng = np.random.default_rng(5)
    matrix = (rng.random((40 if kind == "few rows" else 300, 170)) < 0.1) * rng.random(170)
    matrix = matrix if kind == "doubles" else matrix.astype(np.float32)
    matrix = sp.csr_array(matrix) if kind == "sparse" else matrix
    count = min(32, matrix.shape[0])
    expected = randomized_svd(matrix, count, n_iter=3, transpose=False, random_state=11)[2]
    found = leading_directions(matrix, count, iterations=3, seed=11)
    assert found.dtype == expected.dtype and np.array_equal(found, expected)
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    top = np.linalg.svd(dense.astype(float))[2][:3]  # and they are singular vectors
    assert (np.abs(np.sum(top * found[:3], axis=1)) > 0.95).all()


@needs_real_data
def test_classes_left_out_of_cora() -> None:
    from graphsde.metrics import ood_auroc

    graph = gs.load("cora")
    graph = make_split(graph, "label-leave-out", seed=0).apply(graph)
    found = Evidence.fit(graph)
    spread = found.propagated
    assert ood_auroc(spread[graph.test_mask], spread[graph.ood_mask]) > 0.93
    assert abs(np.corrcoef(found.tail_share(), spread)[0, 1]) > 0.5
