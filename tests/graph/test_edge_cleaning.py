"""Edges: dropped, merged, symmetrised, refused; always counted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, NotEnoughMemory
from graphsde.graph.edges import clean_edges, edges_of_matrix
from graphsde.graph.raw import Finding, ReadOptions


def line(row: int) -> str:
    return f"edges.csv, line {row + 2}"


def clean(
    pairs: list[tuple[int, int]], weights: object = None, nodes: int = 4, **options: object
) -> tuple[np.ndarray, dict[str, Finding]]:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    values = None if weights is None else np.asarray(weights)
    read_options = ReadOptions(**options)  # type: ignore[arg-type]
    adjacency, findings = clean_edges(ends[:, 0], ends[:, 1], values, nodes, read_options, line, lambda row: f"n{row}")
    assert adjacency.directed == read_options.directed
    assert adjacency.matrix.has_canonical_format
    return adjacency.matrix.toarray(), {finding.code: finding for finding in findings}


def refused(*arguments: object, **options: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        clean(*arguments, **options)  # type: ignore[arg-type]
    return caught.value


def dense(entries: dict[tuple[int, int], float], nodes: int = 4) -> list[list[float]]:
    matrix = np.zeros((nodes, nodes))
    for (source, target), value in entries.items():
        matrix[source, target] = value
    return matrix.tolist()


def test_one_direction_is_made_two_and_said() -> None:
    matrix, findings = clean([(0, 1), (1, 2)])
    assert matrix.tolist() == dense({(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1})
    assert findings["W-SYMMETRISED"].message == "symmetrised: 2 → 4 directed entries"


def test_a_symmetric_listing_is_left_alone() -> None:
    for weights in (None, [2.0, 2.0]):
        matrix, findings = clean([(0, 1), (1, 0)], weights)
        assert matrix.sum() == (2 if weights is None else 4)
        assert not findings


def test_directed_keeps_the_direction() -> None:
    matrix, findings = clean([(0, 1), (2, 1)], directed=True)
    assert matrix.tolist() == dense({(0, 1): 1, (2, 1): 1})
    assert not findings


def test_self_loops_and_duplicates_are_counted() -> None:
    matrix, findings = clean([(0, 0), (0, 1), (0, 1), (0, 1), (1, 0), (3, 3)])
    assert matrix.tolist() == dense({(0, 1): 1, (1, 0): 1})
    assert findings["W-SELF-LOOPS"].count == 2
    assert "the propagation adds its own" in findings["W-SELF-LOOPS"].message
    assert findings["W-SELF-LOOPS"].where == (line(0), line(5))
    assert findings["W-DUP-EDGES"].count == 2
    assert "W-SYMMETRISED" not in findings


def test_no_edges_is_a_warning() -> None:
    for pairs in ([], [(1, 1)]):
        matrix, findings = clean(pairs)
        assert not matrix.any()
        assert findings["W-NO-EDGES"].level == "warning"
    assert clean([], [], directed=True)[1].keys() == {"W-NO-EDGES"}


def test_conflicting_weights_are_refused_by_name() -> None:
    error = refused([(0, 1), (2, 3), (0, 1)], [1.0, 5.0, 2.5])
    assert error.code == "E-DUP-WEIGHT"
    assert "1 edge comes with different weights; the first, n0 – n1, with 1, 2.5" in error.message
    assert error.place == f"{line(0)} and {line(2)}"
    opposite = refused([(0, 1), (1, 0)], [1.0, 2.0])
    assert opposite.code == "E-DUP-WEIGHT"
    assert "directed=true" in (opposite.fix or "")
    assert clean([(0, 1), (1, 0)], [1.0, 2.0], directed=True)[0].tolist() == dense({(0, 1): 1, (1, 0): 2})


def test_duplicate_weights_by_rule() -> None:
    pairs = [(0, 1), (0, 1), (1, 0), (2, 3)]
    assert clean(pairs, [1.0, 1.0, 1.0, 4.0])[0][[0, 1, 2], [1, 0, 3]].tolist() == [1, 1, 4]
    assert clean(pairs, [1.0, 2.0, 5.0, 4.0], duplicates="first")[0][[0, 1, 3], [1, 0, 2]].tolist() == [1, 1, 4]
    assert clean(pairs, [1.0, 2.0, 5.0, 4.0], duplicates="sum")[0][[0, 1, 3], [1, 0, 2]].tolist() == [8, 8, 4]
    # 1 + 2 one way and 3 the other way are the same edge, written both ways
    assert clean(pairs, [1.0, 2.0, 3.0, 4.0], duplicates="sum")[0][[0, 1], [1, 0]].tolist() == [3, 3]
    kept = clean(pairs, [1.0, 2.0, 5.0, 4.0], duplicates="sum", directed=True)[0]
    assert kept.tolist() == dense({(0, 1): 3, (1, 0): 5, (2, 3): 4})


def test_first_is_the_first_in_the_listing() -> None:
    matrix, _ = clean([(1, 0), (0, 1), (0, 1)], [7.0, 1.0, 2.0], duplicates="first")
    assert matrix[0, 1] == matrix[1, 0] == 7


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, 1e39])
def test_weights_that_are_refused(weight: float) -> None:
    error = refused([(0, 1), (1, 2), (2, 3)], [1.0, weight, weight])
    assert error.code == "E-WEIGHT"
    assert error.message.startswith("2 edge weights")
    assert error.place == line(1)


def test_weight_corner_cases() -> None:
    matrix, findings = clean([(0, 1), (1, 2), (2, 3)], [0.0, 2.0, 1e-60])
    assert findings["W-WEIGHT-ZERO"].count == 2
    assert matrix.sum() == 4
    assert refused([(0, 1)], ["heavy"]).code == "E-DTYPE"
    assert refused([(0, 1)], [1.0, 2.0]).code == "E-LEN"
    assert refused([(0, 1), (0, 1)], [3e38, 3e38], duplicates="sum").code == "E-WEIGHT"


def test_unknown_ends_are_named_counted_and_may_be_dropped() -> None:
    pairs = [(0, 1)] + [(0, 10 + one) for one in range(7)]
    error = refused(pairs)
    assert error.code == "E-EDGE-UNKNOWN"
    assert error.place == line(1)
    assert error.message.startswith("7 edges lead to an unknown node: 10 (edges.csv, line 3)")
    assert "14" in error.message
    assert "15" not in error.message
    matrix, findings = clean(pairs, unknown_edges="drop")
    assert findings["W-EDGE-DROPPED"].count == 7
    assert clean([(0, 1), (9, 9)], [1.0, 0.0], unknown_edges="drop")[1].keys() == {"W-EDGE-DROPPED", "W-SYMMETRISED"}
    assert matrix.tolist() == dense({(0, 1): 1, (1, 0): 1})
    assert refused([(-1, 0)]).code == "E-EDGE-UNKNOWN"


def test_unknown_ids_are_shown_as_written() -> None:
    with pytest.raises(BadInput, match=r"ghost\\x1b and 77 \(edges.csv, line 2\)"):
        clean_edges(
            np.array([-1]), np.array([-1]), None, 2, ReadOptions(), line, written=(["ghost\x1b"], np.array([77]))
        )


def test_a_sparse_adjacency_is_read_by_rows() -> None:
    matrix = sp.csr_array(np.array([[0, 2.0, 0], [0, 0, 0], [0, 1.0, 0]]))
    sources, targets, weights = edges_of_matrix(matrix, 3)
    assert sources.tolist() == [0, 2]
    assert targets.tolist() == [1, 1]
    assert weights is not None
    assert weights.tolist() == [2, 1]
    assert edges_of_matrix(sp.coo_matrix(matrix > 0), 3)[2] is None
    with pytest.raises(BadInput, match="the adjacency is 3×3 but there are 4 nodes"):
        edges_of_matrix(matrix, 4)
    matrix.indices = np.array([1, 99])
    with pytest.raises(BadInput, match="E-CSR"):
        edges_of_matrix(matrix, 3)


def test_memory_is_asked_for_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_MEMORY_LIMIT", "1")
    ends = np.zeros(100_000, dtype=np.int64)
    with pytest.raises(NotEnoughMemory, match="100,000 edges would need about 6 MB"):
        clean_edges(ends, ends, None, 2, ReadOptions(), line)
    with pytest.raises(NotEnoughMemory, match="100,000 edges would need about 16 MB"):
        clean_edges(ends, ends, np.ones(len(ends)), 2, ReadOptions(), line)


def test_a_hub_and_a_complete_graph() -> None:
    nodes = 200_000
    spokes = np.arange(1, nodes)
    star, _ = clean_edges(np.zeros_like(spokes), spokes, None, nodes, ReadOptions(), line)
    assert star.degree.max() == nodes - 1
    assert star.num_edges == 2 * (nodes - 1)
    ends = np.stack(np.nonzero(np.ones((300, 300))))
    complete, findings = clean_edges(ends[0], ends[1], None, 300, ReadOptions(), line)
    assert complete.num_edges == 300 * 299
    assert [finding.code for finding in findings] == ["W-SELF-LOOPS"]


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.5, 1.0, 2.0, 0.1])), max_size=20)


@settings(max_examples=60, deadline=None)
@given(EDGES, st.booleans(), st.booleans(), st.randoms())
def test_order_of_edges_does_not_matter(
    edges: list[tuple[int, int, float]], directed: bool, weighted: bool, random: object
) -> None:
    def matrix(listing: list[tuple[int, int, float]]) -> np.ndarray:
        weights = [weight for *_, weight in listing] if weighted else None
        pairs = [(source, target) for source, target, _ in listing]
        return clean(pairs, weights, nodes=6, directed=directed, duplicates="sum")[0]

    shuffled = list(edges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    result = matrix(edges)
    assert np.array_equal(result, matrix(shuffled))
    assert not np.diag(result).any()
    if not directed:
        assert np.array_equal(result, result.T)
    listed = {(source, target) for source, target, _ in edges if source != target}
    if not directed:
        listed |= {(target, source) for source, target in listed}
    assert set(zip(*(part.tolist() for part in np.nonzero(result)), strict=True)) == listed
