"""What people get wrong on their first day: each message names the way out, and where a meaning is certain it is taken.

Through the library, and through the command line where there is one for it.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.base.suggestions import ELSEWHERE, closest

from support import block_graph, real_data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3)).astype(np.float32)
Y = ["a", "b", "a", "b", "a", "b"]
PAIRS = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])


def told(call: Callable[[], Any]) -> str:
    with pytest.raises(GraphsdeError) as caught:
        call()
    assert caught.value.code != "E-INTERNAL"
    return str(caught.value)


def said(*words: object) -> str:
    """What the command line says when it refuses."""
    result = graphsde(*words)
    assert result.exit_code not in (0, 70), result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


# 1, 2, 3: names of settings in scikit-learn, PyG and Keras


@pytest.mark.parametrize(
    ("model", "name", "here"),
    [
        (gs.GCN, "learning_rate", "'lr'"),
        (gs.LGNSDE, "learning_rate", "'lr'"),
        (gs.GCN, "random_state", "'seed'"),
        (gs.LabelPropagation, "random_state", "'seed'"),
        (gs.GCN, "hidden_channels", "'hidden'"),
        (gs.GCN, "max_iter", "'epochs'"),
        (gs.LabelPropagation, "max_iter", "'steps'"),
        (gs.Logistic, "C", "'c'"),
        (gs.Ensemble, "n_estimators", "'members'"),
        (gs.APPNP, "alpha", "'teleport' (the probability of returning"),
        (gs.GCN, "alpha", "'weight_decay' (the weight of the L2 penalty"),
        (gs.Logistic, "alpha", "c = 1/alpha"),
        (gs.GCN, "epoch", "did you mean 'epochs'?"),
    ],
)
def test_a_setting_under_the_name_that_it_has_elsewhere(model: Any, name: str, here: str) -> None:
    assert here in told(lambda: model(**{name: 1}))


def test_such_a_setting_on_the_command_line(tmp_path: Path) -> None:
    words = ("fit", "digits", "--model", "gcn", "--out", tmp_path / "run")
    assert "use 'lr'" in said(*words, "--set", "learning_rate=0.1")
    assert "--set lr=VALUE" in said(*words, "--learning-rate", "0.1")
    assert "Use --seed" in said(*words, "--random-state", "1")
    assert "--set" not in said("ask", tmp_path, "--nonsense", "1")


def test_an_option_of_a_split_under_another_name() -> None:
    text = told(lambda: gs.split(gs.load("digits"), "fractions", random_state=1))
    assert "no option random_state" in text and "use 'seed'" in text


def test_alpha_of_conformal_prediction() -> None:
    graph = block_graph(per_class=40)
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    text = told(lambda: gs.conformalize(prediction, graph, alpha=0.1))
    assert "'confidence_level' (which is 1 − alpha)" in text
    assert "use 'seed'" in told(lambda: gs.conformalize(prediction, graph, random_state=0))


def test_every_other_name_leads_to_a_setting_of_some_model() -> None:
    from graphsde.models import MODELS

    settings = {name for model in MODELS for name in MODELS.get(model).Settings.model_fields}
    assert set(ELSEWHERE) - settings == {"confidence_level", "max_error", "delta"}  # of decide and conformalize
    assert not [name for names in ELSEWHERE.values() for name in names if name in ELSEWHERE and name not in ("solver",)]


# 4: a slip of the pen in the name of a model


def test_swapped_letters_in_the_name_of_a_model(tmp_path: Path) -> None:
    assert "did you mean 'gcn'?" in said("fit", "digits", "--model", "gnc", "--out", tmp_path / "run")
    with pytest.raises(AttributeError, match="did you mean 'GCN'"):
        gs.GNC  # type: ignore[attr-defined]  # noqa: B018
    assert closest("lgnsed", ["lgnsde", "gnsd"]) == "lgnsde"


# 5: PyG objects as they come


def pyg(**parts: Any) -> Any:
    data = pytest.importorskip("torch_geometric.data")
    return data.Data(edge_index=torch.as_tensor(PAIRS), **parts)


def test_a_pyg_graph_without_masks_gets_a_split() -> None:
    data = pyg(x=torch.tensor(X), y=torch.tensor([0, 1, 0, 1, 0, 1]))
    graph = gs.as_graph(data)
    assert graph.role("train").sum() >= 2
    assert gs.LabelPropagation().fit(data).predict(data).num_items == 6


def test_a_pyg_graph_without_labels_or_features() -> None:
    assert "data.y" in told(lambda: gs.GCN().fit(pyg(x=torch.tensor(X))))
    bare = pyg(y=torch.tensor([0, 1, 0, 1, 0, 1]), num_nodes=6)
    assert "features" in told(lambda: gs.GCN().fit(bare)) and 'features="degree"' in told(lambda: gs.from_pyg(bare))


# 6: the label under another name


def people(folder: Path, *, label: str = "page_type", edges: str = "source,target\n1,2\n2,3\n3,4\n4,5\n5,6\n") -> Path:
    kinds = "".join(f"{node},{20 + node},{'news' if node % 2 else 'shop'}\n" for node in range(1, 7))
    (folder / "nodes.csv").write_text(f"id,age,{label}\n{kinds}")
    (folder / "edges.csv").write_text(edges)
    return folder


def test_the_label_column_has_another_name(tmp_path: Path) -> None:
    folder = people(tmp_path)
    hint = "--read label=page_type, in Python label='page_type'"
    assert hint in said("fit", folder, "--out", tmp_path / "run")
    problem = next(one for one in answer("check", folder, "--json")["findings"] if one["code"] == "E-NO-LABELS")
    assert hint in problem["hint"]
    assert hint in told(lambda: gs.GCN().fit(gs.read(folder)))
    assert gs.read(folder, label="page_type").num_classes == 2
    assert answer("check", folder, "--read", "label=page_type", "--json")["facts"]["classes"] == {"news": 3, "shop": 3}


def test_a_numeric_label_is_known_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,age,target_class\n1,20,0\n2,30,1\n3,25,0\n4,35,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n3,4\n")
    assert "label=target_class" in told(lambda: gs.GCN().fit(gs.read(tmp_path)))


def test_a_frame_whose_label_has_another_name() -> None:
    pandas = pytest.importorskip("pandas")
    nodes = pandas.DataFrame({"id": range(6), "age": range(6), "pageType": Y})
    edges = pandas.DataFrame({"source": PAIRS[0], "target": PAIRS[1]})
    assert "label='pageType'" in told(lambda: gs.GCN().fit((nodes, edges)))
    assert "features alone" not in told(lambda: gs.GCN().fit(nodes)) and "(nodes, edges)" in told(
        lambda: gs.GCN().fit(nodes)
    )


def test_names_and_ids_are_not_taken_for_labels(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,age,title\n1,20,one\n2,30,two\n3,25,three\n4,35,four\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n3,4\n")
    text = told(lambda: gs.GCN().fit(gs.read(tmp_path)))
    assert "title" not in text and "--read label=COLUMN" in text


# 7: as in scikit-learn


def test_features_and_labels_as_in_scikit_learn() -> None:
    model: Any = gs.GCN()
    for call in (lambda: model.fit(X, Y), lambda: model.fit(X=X, y=Y), lambda: model.fit()):
        assert "gs.from_arrays(X, edges, labels=y)" in told(call)
    assert "gs.from_arrays(features, edges, labels=labels)" in told(lambda: model.fit(X))
    assert "gs.from_arrays(features, edges, labels=labels)" in told(lambda: model.fit((X, PAIRS)))
    assert "gs.load('cora')" in told(lambda: model.fit("cora"))
    assert "gs.read('my/folder')" in told(lambda: model.fit("my/folder"))
    places = {"predict_proba": r"predict\(graph\)\.mean", "score": "gs.evaluate", "classes_": "class_names"}
    for name, instead in places.items():
        with pytest.raises(AttributeError, match=instead):
            getattr(model, name)
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=r"gs.GCN\(\).fit\(graph\)"):
        gs.fit  # type: ignore[attr-defined]  # noqa: B018


def test_a_model_in_place_of_its_prediction_and_other_mix_ups() -> None:
    graph = block_graph(per_class=40)
    model: Any = gs.LabelPropagation().fit(graph)
    found: Any = model.predict(graph)
    assert "model.predict(graph)" in told(lambda: gs.decide(model, graph))
    assert "are swapped" in told(lambda: gs.evaluate(graph, found))
    assert "gs.as_graph" in told(lambda: gs.evaluate(found, {"x": 1}))  # type: ignore[arg-type]
    assert "from_probabilities" in told(lambda: gs.evaluate(found.mean, graph))


# 8: an adjacency matrix instead of pairs


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_matrix, np.ndarray.tolist, torch.as_tensor])
def test_an_adjacency_matrix_is_taken_as_what_it_is(kind: Callable[[np.ndarray], Any]) -> None:
    matrix = np.zeros((6, 6))
    matrix[tuple(PAIRS)] = 1
    expected = gs.from_arrays(X, PAIRS, labels=Y)
    assert gs.from_arrays(X, kind(matrix), labels=Y).fingerprint == expected.fingerprint
    weighted = gs.from_arrays(X, kind(matrix * 2), labels=Y)
    assert weighted.adjacency.is_weighted


def test_a_matrix_that_does_not_fit() -> None:
    assert "(6, 6)" in told(lambda: gs.from_arrays(X, np.zeros((5, 5)), labels=Y))
    assert "edges.T" in told(lambda: gs.from_arrays(X, PAIRS.T, labels=Y))


# 9: edges that count from 1, or name nodes by text


def test_edges_that_count_from_one(tmp_path: Path) -> None:
    assert "subtract 1" in told(lambda: gs.from_arrays(X, PAIRS + 1, labels=Y))
    pandas = pytest.importorskip("pandas")
    nodes = pandas.DataFrame({"age": range(6), "label": Y})
    edges = pandas.DataFrame({"source": PAIRS[0] + 1, "target": PAIRS[1] + 1})
    assert "subtract 1" in told(lambda: gs.from_pandas(nodes, edges))
    folder = people(tmp_path, edges="source,target\n0,1\n1,2\n2,3\n4,5\n")  # the nodes are 1 to 6
    assert "add 1" in said("check", folder)


def test_edges_that_name_nodes_by_text() -> None:
    names = np.array(list("uvwxyz"))
    by_name = gs.from_arrays(X, names[PAIRS], labels=Y, node_ids=names)
    assert by_name.fingerprint == gs.from_arrays(X, PAIRS, labels=Y, node_ids=names).fingerprint
    assert "node_ids=" in told(lambda: gs.from_arrays(X, names[PAIRS], labels=Y))
    assert "unknown node: q" in told(lambda: gs.from_arrays(X, [["u", "q"], ["v", "w"]], labels=Y, node_ids=names))


# 10: the order of things; nodes that are missing; files under other names


def test_predict_before_fit(tmp_path: Path) -> None:
    assert "call fit(graph) first" in told(lambda: gs.GCN().predict(block_graph()))
    assert "graphsde fit GRAPH --out" in said("predict", tmp_path / "none", "--out", tmp_path / "p.csv")


def test_edges_to_nodes_that_are_missing(tmp_path: Path) -> None:
    folder = people(tmp_path, edges="source,target\n1,2\n2,77\n")
    assert "unknown node: 77 (edges.csv, line 3)" in said("check", folder)
    assert "unknown_edges=drop" in told(lambda: gs.read(folder))
    assert gs.read(folder, unknown_edges="drop").num_nodes == 6


def test_files_under_other_names(tmp_path: Path) -> None:
    folder = people(tmp_path)
    (folder / "nodes.csv").rename(folder / "shops.csv")
    (folder / "edges.csv").rename(folder / "links.csv")
    assert "--read nodes=shops.csv" in said("check", folder)
    assert "--read edges=links.csv" in said("check", folder, "--read", "nodes=shops.csv")
    found = answer("check", folder, "--read", "nodes=shops.csv", "--read", "edges=links.csv", "--json")
    assert found["facts"]["nodes"] == 6
    (folder / "shops.csv").write_text((folder / "shops.csv").read_text().replace("id,", "shop,", 1))
    assert "--read id=COLUMN" in said("check", folder, "--read", "nodes=shops.csv", "--read", "edges=links.csv")


@pytest.mark.parametrize("prefix", ["", "musae_facebook_"])
def test_the_raw_facebook_files_lead_to_the_right_options(tmp_path: Path, prefix: str) -> None:
    folder = real_data()
    if folder is None or not (folder / "more" / "facebook").is_dir():
        pytest.skip("more/facebook is not on this machine")
    for path in (folder / "more" / "facebook").iterdir():
        shutil.copyfile(path, tmp_path / f"{prefix}{path.name}")
    text = told(lambda: gs.GCN().fit(gs.read(tmp_path)))
    assert "--read label=page_type" in text and "--read node_name=page_name" in text
    if not prefix:
        graph = gs.read(tmp_path, label="page_type", node_name="page_name")
        assert graph.num_classes == 4 and graph.num_nodes == 22_470


def test_these_errors_are_of_the_right_kind() -> None:
    with pytest.raises(BadUsage):
        gs.GCN(learning_rate=0.1)  # type: ignore[call-arg]
    with pytest.raises(BadInput):
        gs.from_arrays(X, PAIRS + 1, labels=Y)


# options of decide, tables of questions, runs without a model of ours


def test_a_misspelt_option_of_decide_is_told_apart_from_one_for_another_target() -> None:
    graph = block_graph()
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    message = told(lambda: gs.decide(prediction, graph, max_eror=0.05))
    assert "unknown option of decide 'max_eror'" in message and "did you mean 'max_error'" in message
    assert "guarantee" in message and "ood_rule" in message and "former" not in message  # all options are listed
    assert "does not apply to classes" in told(lambda: gs.decide(prediction, graph, intervals_by="deviations"))
    gs.decide(prediction, graph, foreign_by="entropy")  # a former name


def test_questions_become_a_data_frame() -> None:
    graph = block_graph()
    asked = gs.ask(gs.LabelPropagation().fit(graph).predict(graph), graph, budget=3)
    frame = asked.to_pandas()
    assert list(frame.columns) == list(asked.columns()) and frame["id"].tolist() == [one.id for one in asked]
    assert (frame["label"] == "").all() and frame["rank"].tolist() == [1, 2, 3]
    named = dataclasses.replace(graph, node_names=np.array([f"Node {i}" for i in range(30)], dtype=object))
    assert asked.to_pandas(named)["name"].tolist() == [f"Node {one.position}" for one in asked]


def test_questions_about_a_model_of_your_own_are_not_for_learn(tmp_path: Path) -> None:
    graph = block_graph()
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    run = gs.save_run(prediction, graph, tmp_path / "run", made_by="a forest")
    shown = " ".join(graphsde("ask", run, "--budget", 2).stdout.split())
    assert "graphsde learn" not in shown and "train your own model with these labels" in shown
    assert "gs.save_run" in shown
