"""What a run keeps is what solving and reading again would give, to the bit, and is never taken for anything else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.base.errors import BadInput
from graphsde.datasets.source import GraphSource
from graphsde.models import MODELS, Model
from graphsde.runs import bundle
from graphsde.runs import folder as run_folder
from graphsde.runs.bundle import Bundle
from graphsde.runs.calibrate import calibrate_run
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.kept_graph import pack_graph, source_files, unpack_graph
from graphsde.runs.learn import learn
from graphsde.uncertainty import surrogates
from graphsde.uncertainty.evidence import Evidence
from graphsde.uncertainty.scores import score
from graphsde.uncertainty.scores.registry import available_scores

from support import as_before_guards, block_graph, real_data

KEPT = ("graph.safetensors", "prediction.safetensors", "evidence.safetensors")
QUICK = {"epochs": 4, "hidden": 4}
SMALL = 8
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("lgnsde", {"epochs": 4, "race": False}),
    "paths": ("lgnsde", {"epochs": 3, "preset": "universal", "hidden": 4}),
    "gcn": ("gcn", QUICK),
    "mc-dropout": ("mc-dropout", QUICK),
    "ensemble": ("ensemble", {"members": 2, "base_settings": QUICK}),
    "gp": ("graph-gp", {"epochs": 3}),
    "dirichlet": ("gpn", {"epochs": 3}),
    "propagation": ("label-propagation", {"steps": 5}),
}


def tables_of(graph: gs.Graph, folder: Path) -> Path:
    gs.write_tables(graph, folder)
    return folder


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables_of(block_graph(per_class=80), tmp_path_factory.mktemp("blocks"))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tables_of(gs.load("synthetic-regression:200"), tmp_path_factory.mktemp("numbers"))
    assert "regression" in (folder / "graph.yaml").read_text()
    return folder


def fitted(source: Path | str, into: Path, model: str = "gcn", **settings: Any) -> Path:
    request = FitRequest(GraphSource.typed(str(source)), model, settings or QUICK, samples=SMALL)
    return fit_run(request, RunFolder(into)).folder.path


@pytest.fixture(scope="module")
def finished(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted(tables, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def forget(run: Path, *names: str) -> None:
    """Make a run one of the versions that did not keep these files."""
    manifest = json.loads((run / "manifest.json").read_text())
    for name in names or KEPT:
        manifest["files"].pop(name, None)
        (run / name).unlink(missing_ok=True)
    (run / "manifest.json").write_text(json.dumps(manifest))


def sign(run: Path) -> None:
    """Write a manifest that calls every file right: damage must be told by what is in them."""
    manifest = json.loads((run / "manifest.json").read_text())
    for name, guard in manifest["files"].items():
        guard["sha256"] = hashlib.sha256((run / name).read_bytes()).hexdigest()
    (run / "manifest.json").write_text(json.dumps(manifest))


def same(one: Any, other: Any) -> None:
    """Equal to the bit, layout in memory included: sums go by it."""
    assert type(one) is type(other)
    for name in (field.name for field in dataclasses.fields(one)):
        ours, theirs = getattr(one, name), getattr(other, name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tolist() == theirs.tolist(), name
            if ours.ndim > 1 and min(ours.shape) > 1:
                assert ours.flags.c_contiguous == theirs.flags.c_contiguous, name
        elif dataclasses.is_dataclass(ours):
            same(ours, theirs)
        else:
            assert ours == theirs, name
    for part in ("mean", "total", "aleatoric", "epistemic"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


# the same bits


def keep_nothing_back(run: Path) -> None:
    opened = RunFolder(run).opened()
    model, graph = RunFolder(run).load_model(), opened.graph
    solved = model.predict(graph, samples=SMALL)
    same(opened.prediction(), solved)
    same(opened.prediction().untempered(), solved.untempered())
    for name in ("entropy", "energy", "ood"):
        if isinstance(solved, gs.ClassPrediction) and name in available_scores(solved, graph, model):
            np.testing.assert_array_equal(
                score(name, opened.prediction(), graph, model), score(name, solved, dataclasses.replace(graph), model)
            )


@pytest.mark.parametrize("case", CASES)
def test_a_kept_prediction_is_what_solving_again_gives(case: str, tables: Path, tmp_path: Path) -> None:
    name, settings = CASES[case]
    if name not in MODELS:
        pytest.skip(f"{name} is not installed")
    run = fitted(tables, tmp_path / "run", name, **settings)
    keep_nothing_back(run)
    if case != "propagation":
        calibrate_run(RunFolder(run), "temperature")
        keep_nothing_back(run)


@pytest.mark.parametrize("name", ["lgnsde", "gcn"])
def test_numbers_are_kept_too(name: str, numbers: Path, tmp_path: Path) -> None:
    run = fitted(numbers, tmp_path / "run", name, epochs=3)
    assert not (run / "evidence.safetensors").exists()  # the score ood is of classes
    keep_nothing_back(run)
    for _ in range(2):  # the second time a calibrator is there already
        calibrate_run(RunFolder(run), "deviation")
        keep_nothing_back(run)


@pytest.mark.parametrize("by", ["temperature", "vector", "diffusion", "none"])
def test_calibrating_what_was_kept_is_calibrating_what_is_solved(run: Path, by: str) -> None:
    calibrate_run(RunFolder(run), "vector")
    model, graph = RunFolder(run).open()
    before = model.predict(graph, samples=SMALL)
    model.calibrate(graph, by=None if by == "none" else by, samples=SMALL)
    outcome = calibrate_run(RunFolder(run), None if by == "none" else by)
    same(RunFolder(run).opened().prediction(), model.predict(graph, samples=SMALL))
    assert outcome.before == run_folder.figures_of(before, graph)


def odd_graph() -> gs.Graph:
    """Of everything that a graph can have, something."""
    plain = block_graph()
    rng = np.random.default_rng(0)
    nodes = plain.num_nodes
    return gs.from_arrays(
        sp.csr_array(rng.poisson(0.4, size=(nodes, 30)).astype(np.float32)),
        plain.adjacency.edge_index()[:, ::3],
        labels=[None if row % 7 == 6 else f"klasse {row % 3} ß" for row in range(nodes)],
        node_ids=[f"node {row}" for row in range(nodes)],
        node_names=[None if row % 5 else f"Nº {row}\ud800" for row in range(nodes)],
        feature_names=[f"w{column}" for column in range(30)],
        categorical={"colour": [None if row % 4 == 3 else "red" if row % 2 else "blue" for row in range(nodes)]},
        weights=rng.random(len(plain.adjacency.edge_index()[0][::3])) + 0.5,
        directed=True,
        name="odd",
    )


def equal_graphs(one: gs.Graph, other: gs.Graph) -> None:
    assert one.fingerprint == other.fingerprint
    for name in ("name", "split", "feature_names", "class_names", "image_shape", "notes", "benchmark", "target_kind"):
        assert getattr(one, name) == getattr(other, name), name
    assert {role: mask.tolist() for role, mask in one.masks.items()} == {
        role: mask.tolist() for role, mask in other.masks.items()
    }
    assert one.node_ids.dtype == other.node_ids.dtype and one.node_ids.tolist() == other.node_ids.tolist()
    names = [None if graph.node_names is None else graph.node_names.tolist() for graph in (one, other)]
    assert names[0] == names[1]
    assert {name: column.tolist() for name, column in one.categorical.items()} == {
        name: column.tolist() for name, column in other.categorical.items()
    }
    assert one.features.dtype == other.features.dtype and one.is_sparse == other.is_sparse
    assert one.adjacency.directed == other.adjacency.directed


@pytest.mark.parametrize("make", [block_graph, odd_graph, lambda: gs.load("synthetic-regression:100")])
def test_a_kept_graph_is_what_reading_again_gives(make: Callable[[], gs.Graph]) -> None:
    graph = gs.split(make(), "fractions")
    facts = {"fingerprint": make().fingerprint, "split_hash": "ab"}
    packed = pack_graph(graph, {"nodes.csv": "0" * 64}, facts)
    assert packed is not None
    again = unpack_graph(packed, facts | {"name": "odd"}, Path("graph.safetensors"))
    equal_graphs(again, graph)
    with pytest.raises(BadInput, match="of another run"):
        unpack_graph(packed, facts | {"split_hash": "cd"}, Path("graph.safetensors"))
    with pytest.raises(ValueError, match="read-only"):
        again.adjacency.matrix.data[0] = 9


def test_real_pages_with_words_and_names_are_kept() -> None:
    folder = real_data()
    if folder is None or not (folder / "more" / "facebook").is_dir():
        pytest.skip("more/facebook is not on this machine")
    graph = gs.read(folder / "more" / "facebook", label="page_type", node_name="page_name")
    facts = {"fingerprint": graph.fingerprint, "split_hash": "ab"}
    packed = pack_graph(graph, {}, facts)
    assert packed is not None and packed.bytes < 10_000_000
    equal_graphs(unpack_graph(packed, facts, Path("graph.safetensors")), graph)


def test_a_split_that_takes_classes_away_is_kept(tables: Path, tmp_path: Path) -> None:
    source = GraphSource.typed(str(tables), split="leave-class-out", split_options={"leave": "last"})
    run = fit_run(FitRequest(source, "gcn", QUICK, samples=SMALL), RunFolder(tmp_path / "run")).folder
    kept = run.load_graph()
    assert kept.ood_nodes is not None and kept.ood_nodes.any() and (run.path / "graph.safetensors").exists()
    forget(run.path)
    equal_graphs(kept, RunFolder(run.path).load_graph())


def test_a_kept_graph_survives_its_file(tables: Path, run: Path) -> None:
    kept = RunFolder(run).load_graph()
    forget(run)
    equal_graphs(kept, RunFolder(run).load_graph())


def test_a_large_file_is_mapped_and_its_arrays_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {
        "wide": rng.standard_normal((5, 3)),
        "turned": rng.standard_normal((4, 6)).astype(np.float32).T,
        "flags": rng.random(7) > 0.5,
        "whole": rng.integers(-5, 5, 9),
        "single": np.array(2.5),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "small": np.arange(5, dtype=np.uint8),
    }
    path = tmp_path / "bundle.safetensors"
    Bundle(arrays, {"answer": 42}).write(path)
    content = path.read_bytes()
    monkeypatch.setattr(bundle, "MAPPED", 0)
    found = Bundle.read(path)
    assert found.values == {"answer": 42} and set(found.arrays) == set(arrays)
    for name, array in arrays.items():
        other = found.arrays[name]
        assert other.dtype == array.dtype and other.shape == array.shape, name
        assert other.strides == array.strides or not array.size, name
        assert np.array_equal(other, array), name
        other[...] = 0  # the reader's own
    assert isinstance(found.arrays["wide"].base, np.ndarray) and path.read_bytes() == content
    path.write_bytes(content[:-1])
    with pytest.raises(BadInput, match="damaged"):
        Bundle.read(path)


def test_the_order_of_axes_in_memory_comes_back(tmp_path: Path) -> None:
    turned = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    Bundle({"turned": turned, "none": np.zeros((0, 3))}, {"a": ["ü\ud800", None, 0.1]}).write(tmp_path / "x")
    found = Bundle.read(tmp_path / "x")
    assert found.arrays["turned"].tolist() == turned.tolist() and found.arrays["turned"].strides == turned.strides
    assert found.arrays["none"].shape == (0, 3) and found.values == {"a": ["ü\ud800", None, 0.1]}


# nothing is solved twice


class Counted:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.calls = 0
        real = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)


VERBS = ("evaluate", "predict", "decide", "ask", "report", "calibrate")


def words(verb: str, run: Path) -> tuple[object, ...]:
    rest = {"predict": ("--out", run / "p.csv"), "decide": ("--out", run / "d.csv", "--max-error", 0.4)}
    drawn = () if verb == "calibrate" else ("--samples", SMALL)
    return (verb, run, *rest.get(verb, ()), *drawn)


def test_no_verb_solves_or_reads_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solving = Counted(monkeypatch, gs.GCN, "respond")
    reading = Counted(monkeypatch, GraphSource, "open")
    judging = Counted(monkeypatch, Evidence, "fit")
    imagining = Counted(monkeypatch, surrogates, "mix_features")
    for verb in VERBS:
        done = graphsde(*words(verb, run))
        assert done.exit_code == 0, (verb, done.output)
        assert (solving.calls, reading.calls, judging.calls, imagining.calls) == (0, 0, 0, 0), verb
    answer("evaluate", run, "--samples", SMALL + 1, "--json")
    assert solving.calls == 1  # as many as were asked for, and no less
    graphsde("predict", run, "--out", run / "p.csv", "--samples", SMALL, "--seed", 5)
    assert solving.calls == 2
    graphsde("predict", run, "--out", run / "p.csv", "--samples", SMALL, "--seed", 0)
    assert solving.calls == 2  # the model's own seed is that of the fit
    forget(run)
    answer("evaluate", run, "--samples", SMALL, "--json")
    assert solving.calls == 3 and reading.calls == 1


def test_a_finished_fit_is_read_not_solved(tables: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solving = Counted(monkeypatch, gs.GCN, "respond")
    request = FitRequest(GraphSource.typed(str(tables)), "gcn", QUICK, samples=SMALL)
    assert fit_run(request, RunFolder(run)).already_done and solving.calls == 0


@pytest.mark.parametrize("verb", [*VERBS, "explain"])
def test_a_run_of_before_says_the_same(run: Path, tmp_path: Path, verb: str) -> None:
    before = Path(shutil.copytree(run, tmp_path / "before"))
    forget(before)
    asked = (lambda one: ("explain", one, 3)) if verb == "explain" else (lambda one: words(verb, one))
    said = [graphsde(*asked(one)) for one in (run, before)]
    assert [one.exit_code for one in said] == [0, 0], [one.output for one in said]
    texts = [one.output.replace(str(place), "RUN") for one, place in zip(said, (run, before), strict=True)]
    assert texts[0] == texts[1]
    for name in {"predict": ["p.csv"], "decide": ["d.csv"], "calibrate": ["model.json"]}.get(verb, []):
        assert (run / name).read_bytes() == (before / name).read_bytes()


# guards


@pytest.mark.parametrize("name", KEPT)
def test_a_tampered_file_is_named_with_exit_code_65(run: Path, name: str) -> None:
    content = bytearray((run / name).read_bytes())
    content[-5] ^= 1
    (run / name).write_bytes(bytes(content))
    for verb in (*VERBS, "doctor"):
        done = graphsde(*(words(verb, run) if verb != "doctor" else (verb, run)))
        assert done.exit_code == 65 and name in done.output, (verb, done.output)


def forge(run: Path, name: str, change: Callable[[dict[str, np.ndarray], dict[str, Any]], None]) -> None:
    found = Bundle.read(run / name)
    arrays, values = dict(found.arrays), found.values
    change(arrays, values)
    Bundle(arrays, values).write(run / name)
    sign(run)


FORGERIES: dict[str, tuple[str, Callable[[dict[str, np.ndarray], dict[str, Any]], None]]] = {
    "edges to nowhere": (KEPT[0], lambda a, v: a.update({"edges.indices": a["edges.indices"] + 10**6})),
    "another edge": (KEPT[0], lambda a, v: a.update({"edges.data": a["edges.data"] * 2})),
    "labels of no class": (KEPT[0], lambda a, v: a.update(target=a["target"] + 9)),
    "a short mask": (KEPT[0], lambda a, v: a.update({"mask.train": a["mask.train"][:-1]})),
    "another split": (KEPT[0], lambda a, v: v["facts"].update(split_hash="0")),
    "other nodes": (KEPT[1], lambda a, v: a.update(probs=a["probs"][:, :-1])),
    "short logits": (KEPT[1], lambda a, v: a.update(logits=a["logits"][:, :-1])),
    "no spread": (KEPT[1], lambda a, v: v["levels"][0].update(kind="sure")),
    "no levels": (KEPT[1], lambda a, v: v.update(levels=[])),
    "not a number": (KEPT[1], lambda a, v: a.update(probs=a["probs"] * np.nan)),
    "evidence of others": (KEPT[2], lambda a, v: a.update(values=a["values"][:-1])),
    "landmarks beyond": (KEPT[2], lambda a, v: a.update({"centres.rows": a["centres.rows"] + 10**6})),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_content_that_does_not_fit_is_damage(run: Path, forgery: str) -> None:
    name, change = FORGERIES[forgery]
    forge(run, name, change)
    with pytest.raises(BadInput, match=name) as caught:
        RunFolder(run).opened().prediction()
    assert caught.value.code == "E-CORRUPT"


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100])
def test_a_file_that_is_no_bundle_is_damage(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    sign(run)
    with pytest.raises(BadInput, match=name):
        RunFolder(run).opened().prediction()


def test_files_that_no_manifest_guards_are_not_believed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_before_guards(run)
    for name in KEPT:
        (run / name).write_bytes(b"anybody could have put this here")
    solving = Counted(monkeypatch, gs.GCN, "respond")
    assert RunFolder(run).opened().prediction().num_items == 240 and solving.calls == 1


def test_a_run_that_is_changed_meanwhile_is_not_mixed(run: Path) -> None:
    opened = RunFolder(run).opened()
    assert opened.graph.num_nodes
    calibrate_run(RunFolder(run), "temperature")
    with pytest.raises(BadInput) as caught:
        opened.prediction()
    assert caught.value.code == "E-RUN-CHANGED"


# the source


@pytest.fixture
def own(tables: Path, tmp_path: Path) -> tuple[Path, Path]:
    source = Path(shutil.copytree(tables, tmp_path / "source"))
    return source, fitted(source, tmp_path / "run")


def test_changed_files_are_noticed(own: tuple[Path, Path]) -> None:
    source, run = own
    lines = (source / "nodes.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[-1] = "123.5"
    (source / "nodes.csv").write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    for verb in (*VERBS, "doctor"):
        done = graphsde(*(words(verb, run) if verb != "doctor" else (verb, run)))
        assert "has changed since the run was made" in done.output and done.exit_code == 65, (verb, done.output)
    with pytest.raises(BadInput) as caught:
        RunFolder(run).opened().prediction()
    assert caught.value.code == "E-DATA-CHANGED"


def test_files_that_say_the_same_in_other_bytes_are_read_again(
    own: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = own
    reading = Counted(monkeypatch, GraphSource, "open")
    kept = RunFolder(run).load_graph()
    assert reading.calls == 0
    (source / "nodes.csv").write_bytes((source / "nodes.csv").read_bytes().replace(b"\n", b"\r\n"))
    equal_graphs(RunFolder(run).load_graph(), kept)
    assert reading.calls == 1


def test_a_new_table_is_noticed_and_other_files_are_not(own: tuple[Path, Path]) -> None:
    source, run = own
    (source / "notes.txt").write_text("nobody reads this")
    (source / "runs").mkdir()
    assert RunFolder(run).load_graph()
    (source / "nodes.parquet").write_bytes(b"")
    with pytest.raises(BadInput, match=r"both nodes\.csv and nodes\.parquet"):
        RunFolder(run).load_graph()


def test_a_source_that_is_gone_is_told_in_one_line(own: tuple[Path, Path]) -> None:
    source, run = own
    there = answer("evaluate", run, "--json")
    shutil.rmtree(source)
    done = graphsde("evaluate", run, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout) == there
    assert done.stderr.count("\n") == 1 and "no longer exists: using the graph saved in the run" in done.stderr
    forget(run, "graph.safetensors")
    assert graphsde("evaluate", run).exit_code == 65


def test_a_source_that_changes_while_it_is_read_is_not_kept(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(shutil.copytree(tables, tmp_path / "source"))
    real = Model.resolve

    def changing(self: Model, graph: gs.Graph) -> None:
        (source / "nodes.csv").write_bytes((source / "nodes.csv").read_bytes() + b"\n")
        real(self, graph)

    monkeypatch.setattr(gs.LabelPropagation, "resolve", changing)
    run = fitted(source, tmp_path / "run", "label-propagation", steps=5)
    assert not (run / "graph.safetensors").exists() and (run / "prediction.safetensors").exists()


def test_which_files_count(tmp_path: Path) -> None:
    assert source_files("cora") is None and source_files(str(tmp_path / "nothing")) is None
    (tmp_path / "nodes.csv").write_text("id\n")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "edge.csv.gz").write_bytes(b"x")
    found = source_files(str(tmp_path))
    assert found is not None and list(found) == ["nodes.csv", "raw/edge.csv.gz"]
    assert found["nodes.csv"] == hashlib.sha256(b"id\n").hexdigest()
    assert source_files(str(tmp_path / "nodes.csv")) == {"nodes.csv": found["nodes.csv"]}


# changes


def test_too_large_is_told_and_solved_again(
    tables: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(run_folder, "LARGEST", 100)
    request = FitRequest(GraphSource.typed(str(tables)), "gcn", QUICK, samples=SMALL)
    small = fit_run(request, RunFolder(tmp_path / "small"), say=told.append).folder
    assert not [name for name in KEPT if (small.path / name).exists()]
    assert sum("is not saved" in line for line in told) == 3
    keep_nothing_back(small.path)
    calibrate_run(RunFolder(run), "vector")  # a prediction of before must not stay beside the new model
    assert not (run / "prediction.safetensors").exists() and (run / "graph.safetensors").exists()
    keep_nothing_back(run)


def test_learning_keeps_what_the_new_model_says(run: Path) -> None:
    graph_before = (run / "graph.safetensors").read_bytes()
    first = RunFolder(run).opened().prediction()
    book = {int(node): "class 0" for node in RunFolder(run).load_graph().node_ids[[8, 9]]}
    learn(run, book, epochs=2)
    assert RunFolder(run).load_graph().role("train")[[8, 9]].all()
    keep_nothing_back(run)
    assert (run / "graph.safetensors").read_bytes() == graph_before
    same(RunFolder(run / "history" / "0").opened().prediction(), first)


def test_learning_on_a_graph_that_has_grown_keeps_that_graph(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = tables_of(block_graph(per_class=80), tmp_path / "grown")
    header = (grown / "nodes.csv").read_text().splitlines()[0].replace('"', "").split(",")
    known = {header[0]: "999", "label": "", "split": ""}
    with (grown / "nodes.csv").open("a") as stream:
        stream.write(",".join(known.get(name, "0.5") for name in header) + "\n")
    learn(run, {8: "class 0"}, graph=str(grown), epochs=2)
    assert RunFolder(run).load_graph().num_nodes == 241
    keep_nothing_back(run)
    monkeypatch.setattr(run_folder, "LARGEST", 100)
    learn(run, {9: "class 0"}, graph=str(grown), epochs=2)
    assert not (run / "graph.safetensors").exists()
    assert RunFolder(run).load_graph().num_nodes == 241


def test_a_benchmark_is_not_copied(tmp_path: Path) -> None:
    run = fitted("synthetic:100", tmp_path / "run")
    assert not (run / "graph.safetensors").exists() and (run / "prediction.safetensors").exists()
    keep_nothing_back(run)
