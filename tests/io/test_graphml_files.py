"""GraphML, with networkx as the writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from file_makers import GRAPHML

from graphsde.graph.build import from_arrays
from graphsde.io.read import read

networkx = pytest.importorskip("networkx")


def written(folder: Path, graph: object) -> Path:
    networkx.write_graphml(graph, folder / "graph.graphml")
    return folder / "graph.graphml"


def example(kind: type) -> object:
    graph = kind()
    for node, (age, member, city, topic, split) in {
        "ann": (31, True, "Rome", "a & b", "train"),
        "bob": (25, False, "<Oslo>", "c", "train"),
        "eve": (40, True, "", "c", "test"),
    }.items():
        graph.add_node(node, age=age, height=age / 20, member=member, city=city, label=topic, split=split)
    graph.add_edge("ann", "bob", weight=0.5)
    graph.add_edge("bob", "eve", weight=2.0)
    return graph


def test_what_networkx_writes(tmp_path: Path) -> None:
    graph = read(written(tmp_path, example(networkx.Graph)), name="friends")
    expected = from_arrays(
        np.array([[31, 31 / 20, 1], [25, 25 / 20, 0], [40, 2, 1]]),
        [[0, 1], [1, 2]],
        weights=np.array([0.5, 2.0]),
        labels=["a & b", "c", "c"],
        node_ids=["ann", "bob", "eve"],
        categorical={"city": ["Rome", "<Oslo>", None]},
    )
    assert graph.fingerprint == expected.fingerprint
    assert graph.feature_names == ("age", "height", "member")
    assert graph.masks["train"].tolist() == [True, True, False]
    assert graph.name == "friends"


def test_direction(tmp_path: Path) -> None:
    directed = written(tmp_path, example(networkx.DiGraph))
    assert read(directed).num_edges == 4
    assert read(directed, directed=True).num_edges == 2
    undirected = written(tmp_path, example(networkx.Graph))
    assert read(undirected, directed=True).num_edges == 4


def test_whole_numbers_as_ids_and_labels(tmp_path: Path) -> None:
    graph = networkx.karate_club_graph()
    for node in graph:
        graph.nodes[node]["label"] = int(graph.nodes[node].pop("club") == "Officer")
        graph.nodes[node]["x"] = float(node)
    read_back = read(written(tmp_path, graph))
    assert read_back.node_ids.tolist() == list(range(34))
    assert read_back.num_edges == 2 * graph.number_of_edges()
    assert read_back.class_names == ("0", "1")
    assert np.array_equal(read_back.labels, [graph.nodes[node]["label"] for node in graph])


def test_missing_values_and_defaults(tmp_path: Path) -> None:
    keys = (
        '<key id="k" for="node" attr.name="x" attr.type="double"><default>7.5</default></key>'
        '<key id="l" for="all" attr.name="label" attr.type="string"/>'
        '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
        '<key id="y" for="node" yfiles.type="nodegraphics"/>'
    )
    body = (
        '<graph edgedefault="undirected"><desc>any</desc><node id="a"><data key="l">u</data>'
        '<data key="y"><y:Shape xmlns:y="urn:y"><y:Fill/></y:Shape></data></node>'
        '<node id="b"><data key="k"> 1e3 </data></node><edge source="a" target="b"/>'
        '<edge source="b" target="a"><data key="w">1</data></edge></graph></graphml>'
    )
    path = tmp_path / "graph.xml"
    path.write_text(GRAPHML + keys + body)
    graph = read(path)
    assert graph.features.tolist() == [[7.5], [1000.0]]
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, -1]
    assert graph.adjacency.matrix[0, 1] == 1.0


def test_an_attribute_of_two_types(tmp_path: Path) -> None:
    graph = networkx.Graph()
    graph.add_node("a", x=1, label="u")
    graph.add_node("b", x=1.5, label="v")
    graph.add_edge("a", "b")
    assert read(written(tmp_path, graph)).features.tolist() == [[1.0], [1.5]]


def test_edge_attributes_are_counted(tmp_path: Path) -> None:
    graph = networkx.Graph()
    graph.add_node("a", x=1)
    graph.add_node("b", x=2)
    graph.add_edge("a", "b", since=2001)
    assert "W-EDGE-COLUMNS" in {note.code for note in read(written(tmp_path, graph)).notes}
