"""Labels that are numbers: what is read, what is refused, what is drawn, what is said of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.check_labels import edge_correlation
from graphsde.graph.labels import encode_values

PATH = [[0, 1, 2, 3], [1, 2, 3, 4]]


def small(values: object, **more: object) -> gs.Graph:
    return gs.from_arrays(np.arange(5.0)[:, None], PATH, labels=values, target="regression", **more)


def folder(tmp_path: Path, labels: list[str], settings: str = "target: numeric\n") -> Path:
    rows = "".join(f"n{row},{row}.5,{label}\n" for row, label in enumerate(labels))
    (tmp_path / "nodes.csv").write_text("id,age,label\n" + rows)
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\nn1,n2\n")
    (tmp_path / "graph.yaml").write_text(settings)
    return tmp_path


def test_numbers_are_values_and_not_classes() -> None:
    graph = small([0.5, -1, None, float("nan"), 7])
    assert graph.target_kind == "regression" and graph.labels is None and graph.num_classes == 0
    assert graph.values.tolist()[:2] == [0.5, -1.0] and graph.values[4] == 7
    assert graph.labelled.tolist() == [True, True, False, False, True]
    assert "target='regression'" in repr(graph)
    part = graph.subgraph(np.array([4, 0]))
    assert part.values.tolist() == [7.0, 0.5]
    assert small([0.5, -1, None, None, 7.5]).fingerprint != graph.fingerprint


def test_the_rules_for_classes_are_off(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"E-LABEL-FLOAT.*--read target=regression"):  # and the way out is told
        gs.from_arrays(np.arange(5.0)[:, None], PATH, labels=[0.5, 1.5, 2.0, 2.5, 3.0])
    assert small([0.5, 1.5, 2.0, 2.5, 3.0]).values[0] == 0.5  # decimals
    assert small(["1", "1.0", "1e0", "+1", "01"]).values.tolist() == [1.0] * 5  # many spellings of one number
    assert small([3.0] * 5).values.tolist() == [3.0] * 5  # one value only: refused at fit, not at reading
    many = gs.from_arrays(np.zeros((20_000, 1)), [[0], [1]], labels=np.arange(20_000.0), target="regression")
    assert many.values[-1] == 19_999  # more than the most classes


def test_a_folder_says_that_its_labels_are_numbers(tmp_path: Path) -> None:
    graph = gs.read(folder(tmp_path, ["1.5", "", "-2e1"]))
    assert graph.values[0] == 1.5 and np.isnan(graph.values[1]) and graph.values[2] == -20.0
    assert gs.read(folder(tmp_path, ["1.5", "", "2"], "label_kind: numeric\n")).target_kind == "regression"
    assert gs.read(folder(tmp_path, ["1", "0", "1"], ""), target="regression").target_kind == "regression"
    assert gs.read(folder(tmp_path, ["1", "0", "1"], "target: target\n")).target_kind == "classification"


def test_label_kind_leaves_the_column_of_targets_free(tmp_path: Path) -> None:
    place = folder(tmp_path, ["1.5", "2.5", "2"], "target: to\nlabel_kind: numeric\n")
    (place / "edges.csv").write_text("source,to\nn0,n1\n")
    assert gs.read(place).target_kind == "regression"
    with pytest.raises(BadInput, match="one of classification, regression"):
        gs.read(folder(tmp_path, ["1.5", "2.5", "2"], "label_kind: numerical\n"))


@pytest.mark.parametrize("cell", ["abc", "1,5", "1 000", "0x10", "1_000", "١"])
def test_text_is_refused_with_its_line(tmp_path: Path, cell: str) -> None:
    with pytest.raises(BadInput, match="E-VALUE-TYPE") as error:
        gs.read(folder(tmp_path, ["1.5", "2.5", f'"{cell}"']))
    assert "nodes.csv, line 4" in str(error.value) and error.value.exit_code == 65


def test_what_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="E-VALUE-INF"):
        small([1.0, np.inf, 2, 3, 4])
    with pytest.raises(BadInput, match="E-VALUE-INF"):
        small(["1", "1e999", "2", "3", "4"])
    with pytest.raises(BadInput, match="E-LABEL-SHAPE"):
        small(np.zeros((5, 2)))
    with pytest.raises(BadInput, match="E-DTYPE"):
        small(np.zeros(5, dtype=complex))
    with pytest.raises(BadUsage, match="a regression target has no classes"):
        gs.read(folder(tmp_path, ["1.5", "2.5", "2"], "target: numeric\nclasses: [a, b]\n"))
    with pytest.raises(BadInput, match="E-SPLIT-UNLABELLED"):
        small([1.0, None, 2, 3, 4], train_mask=[0, 1])
    with pytest.raises(BadUsage, match="one of classification, regression"):
        gs.from_arrays([[1.0], [2.0]], [[0], [1]], labels=[1, 2], target="number")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=False)), min_size=2, max_size=20))
def test_text_and_numbers_read_alike(items: list[float | None]) -> None:
    as_numbers, _ = encode_values(items, str)
    texts = ["" if item is None else repr(item) for item in items]
    np.testing.assert_array_equal(encode_values(texts, str)[0], as_numbers)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_written_tables_read_back_as_the_same_graph(tmp_path: Path, format: str) -> None:
    graph = small([0.1, -1e-300, None, 1 / 3, 1e300], train_mask=[0, 1], test_mask=[4])
    gs.write_tables(graph, tmp_path, format)
    back = gs.read(tmp_path, name=graph.name)
    assert back.fingerprint == graph.fingerprint and back.target_kind == "regression"
    assert back.masks["test"].tolist() == graph.masks["test"].tolist()


def test_other_libraries_get_the_values_and_give_them_back() -> None:
    graph = small([0.5, 1.5, None, 3.5, 4.5])
    pytest.importorskip("torch_geometric")
    for back in (
        gs.from_pyg(gs.to_pyg(graph), target="regression"),
        gs.from_networkx(gs.to_networkx(graph), target="regression"),
    ):
        np.testing.assert_array_equal(back.values, graph.values)


def test_fractions_are_even_along_the_values() -> None:
    graph = gs.load("synthetic-regression:500")
    split = gs.make_split(graph, "fractions", seed=3, train=0.5, val=0.2, calibration=0.1, test=0.2)
    assert split.sizes == {"train": 250, "val": 100, "calibration": 50, "test": 100}
    tenth = np.argsort(np.argsort(graph.values)) // 50
    for role, share in (("train", 25), ("val", 10), ("calibration", 5), ("test", 10)):
        assert np.abs(np.bincount(tenth[split.masks[role]], minlength=10) - share).max() <= 2
    again = gs.make_split(graph, "fractions", seed=4, train=0.5, val=0.2, calibration=0.1, test=0.2)
    assert (again.masks["train"] != split.masks["train"]).any()


def test_unknown_values_get_no_role_and_class_splits_refuse() -> None:
    values = [None if node % 3 else float(node) for node in range(60)]
    graph = gs.from_arrays(np.zeros((60, 1)), [[0], [1]], labels=values, target="regression")
    split = gs.make_split(graph, "fractions")
    assert not np.any([mask & ~graph.labelled for mask in split.masks.values()]) and split.sizes["train"] == 12
    for name in ("shchur", "lcc-1500", "paper-statistics", "leave-class-out", "label-leave-out"):
        with pytest.raises(BadUsage, match=r"E-TARGET.*fractions"):
            gs.make_split(graph, name)
    diabetes = gs.load("diabetes")
    assert gs.make_split(diabetes, "calibration").sizes == {"train": 221, "val": 66, "test": 78, "calibration": 77}
    empty = gs.from_arrays(np.zeros((60, 1)), [[0], [1]], labels=[None] * 60, target="regression")
    with pytest.raises(BadInput, match="E-NO-LABELS"):
        gs.make_split(empty, "fractions")


def test_correlation_along_edges() -> None:
    graph = small([1.0, 2.0, 3.0, 4.0, 5.0])
    sources, targets = graph.adjacency.edge_index()
    expected = np.corrcoef(graph.values[sources], graph.values[targets])[0, 1]
    assert edge_correlation(graph) == pytest.approx(expected)
    assert edge_correlation(small([1.0, -1.0, 1.0, -1.0, 1.0])) == pytest.approx(-1.0)
    assert edge_correlation(small([2.0] * 5)) is None


def test_the_check_speaks_of_values() -> None:
    diabetes = gs.load("diabetes")
    report = gs.check(diabetes)
    assert not report.problems and report.facts["target"]["known"] == 442
    assert "Target: regression, 442 nodes have a value; 25 to 346" in str(report) and "classes" not in str(report)
    edges = diabetes.adjacency.edge_index()
    ends = np.stack([diabetes.values[side] for side in edges])
    assert np.corrcoef(ends)[0, 1] == pytest.approx(0.437, abs=5e-4)
    shown = np.logical_and(*(~diabetes.test_mask[side] for side in edges))  # test values are not looked at
    assert report.facts["target"]["edge_correlation"] == pytest.approx(np.corrcoef(ends[:, shown])[0, 1])
    unlike = gs.check(small([1.0, -1.0, 1.0, -1.0, None], train_mask=[0, 1], val_mask=[2]))
    assert {"W-VALUE-UNLIKE", "W-UNLABELLED"} <= {finding.code for finding in unlike.findings}
    assert "E-ONE-VALUE" in {finding.code for finding in gs.check(small([2.0] * 5)).problems}
    same = gs.check(small([2.0, 2.0, 2.0, 3.0, 4.0], train_mask=[0, 1], val_mask=[3]))
    assert [finding.code for finding in same.problems] == ["E-ONE-VALUE"]
    far = gs.check(
        gs.from_arrays(np.zeros((9, 1)), [[0], [1]], labels=[1, 2, 3, 1, 2, 3, 1, 2, 1e6], target="regression")
    )
    assert "W-VALUE-FAR" in {finding.code for finding in far.findings}


def test_diabetes_is_the_published_data() -> None:
    from sklearn.datasets import load_diabetes

    graph, bunch = gs.load("diabetes"), load_diabetes(scaled=False)
    assert graph.num_nodes == 442 and graph.num_edges == 4988 and graph.feature_names == tuple(bunch.feature_names)
    np.testing.assert_array_equal(graph.values, bunch.target)
    assert {role: int(mask.sum()) for role, mask in graph.masks.items()} == {"train": 221, "val": 66, "test": 155}
    standard = (bunch.data - bunch.data.mean(0)) / bunch.data.std(0)
    distance = np.linalg.norm(standard[:, None] - standard, axis=-1)
    np.fill_diagonal(distance, np.inf)
    near = graph.adjacency.matrix.toarray() > 0
    reach = np.sort(distance, axis=1)[:, 7]
    assert (near == ((distance <= reach[:, None]) | (distance <= reach))).mean() > 0.9999  # rounding may swap a few


def test_synthetic_values_have_the_noise_they_state() -> None:
    one, other = gs.synthetic_regression(4000, noise=0.3, seed=5), gs.synthetic_regression(4000, noise=0.0, seed=5)
    noise = one.values - other.values
    averaged = np.asarray(one.features, dtype=np.float64)
    for _ in range(2):
        averaged = one.adjacency.normalized @ averaged
    high = averaged[:, 0] > np.median(averaged[:, 0])
    assert other.values.std() == pytest.approx(1.0)
    assert noise[high].std() == pytest.approx(0.45, rel=0.06) and noise[~high].std() == pytest.approx(0.15, rel=0.06)
    assert gs.synthetic_regression(300, seed=1).fingerprint == gs.synthetic_regression(300, seed=1).fingerprint
    with pytest.raises(BadUsage, match="noise"):
        gs.synthetic_regression(300, noise=-1.0)
