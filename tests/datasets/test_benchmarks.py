"""The registry of graphs, the embedded one, and the two Amazon files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import BadInput, BadUsage, UnknownName
from graphsde.datasets import published as locate
from graphsde.datasets.amazon import PINNED
from graphsde.datasets.benchmarks import DATASETS, load, where_is
from graphsde.datasets.embedded import nearest
from graphsde.datasets.splits import default_split

from support import more_data, needs_real_data, real_data

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    "name",
    [
        "digits",
        "synthetic",
        *(pytest.param(one, marks=needs_real_data) for one in ("cora", "citeseer", "pubmed", "computers", "photo")),
        "coauthor-cs",
    ],
)
def test_every_graph_is_what_its_entry_says(name: str) -> None:
    if name == "coauthor-cs":
        more_data("ms_academic_cs.npz")
    facts, graph = DATASETS.entry(name).facts, load(name.upper())
    assert graph.name == name
    assert (graph.benchmark, facts.get("fingerprint")) == (
        (None, None) if name == "synthetic" else (name, graph.fingerprint)
    )
    assert (facts["nodes"], facts["edges"]) == (graph.num_nodes, graph.num_edges)
    assert (facts["features"], facts["classes"]) == (graph.num_features, graph.num_classes)
    assert facts["default_split"] == default_split(graph)
    assert facts["origin"] and facts["licence"]


def test_the_list_names_all_ten() -> None:
    classes = ["digits", "cora", "citeseer", "pubmed", "computers", "photo", "coauthor-cs", "synthetic"]
    assert [name for name in DATASETS.names() if "target" not in DATASETS.entry(name).facts] == classes
    assert set(DATASETS) - set(classes) == {"diabetes", "synthetic-regression"}
    assert {"name", "summary", "nodes", "edges", "features", "classes", "default_split"} <= DATASETS.describe()[
        0
    ].keys()


@needs_real_data
@pytest.mark.parametrize(
    ("name", "counts", "entries", "isolated", "first"),
    [
        ("computers", [436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291], 3675081, 281, "Desktops"),
        ("photo", [369, 1686, 703, 915, 882, 823, 1941, 331], 1979909, 115, "Film Photography"),
    ],
)
def test_amazon(name: str, counts: list[int], entries: int, isolated: int, first: str) -> None:
    graph = load(name)
    assert np.bincount(graph.labels).tolist() == counts  # type: ignore[arg-type]
    assert graph.is_sparse and graph.features.nnz == entries and set(np.unique(graph.features.data)) == {1.0}
    assert int(graph.adjacency.isolated.sum()) == isolated
    assert graph.class_names[0] == first and not graph.masks
    assert (graph.adjacency.matrix != graph.adjacency.matrix.T).nnz == 0


@needs_real_data
def test_one_flipped_byte_in_an_amazon_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / PINNED["photo"].path
    path.parent.mkdir(parents=True)
    shutil.copyfile(real_data() / PINNED["photo"].path, path)  # type: ignore[operator]
    with open(path, "r+b") as stream:
        stream.seek(1_000_000)
        byte = stream.read(1)[0]
        stream.seek(1_000_000)
        stream.write(bytes([byte ^ 1]))
    with pytest.raises(BadInput, match=r"amazon_electronics_photo\.npz") as caught:
        load("photo", root=tmp_path)
    assert caught.value.code == "E-HASH"


def test_digits() -> None:
    graph = load("digits")
    assert graph.image_shape == (8, 8) and graph.class_names == tuple("0123456789")
    assert graph.node_ids.tolist() == list(range(1797))
    assert graph.feature_names is not None
    assert graph.feature_names[0] == "pixel 0,0" and graph.feature_names[8 * 3 + 4] == "pixel 3,4"
    assert graph.features.dtype == np.float32 and graph.features.min() == 0 and graph.features.max() == 1
    assert {role: int(mask.sum()) for role, mask in graph.masks.items()} == {"train": 200, "val": 300, "test": 1297}
    assert np.bincount(graph.labels[graph.masks["val"]]).tolist() == [30] * 10  # type: ignore[index]
    assert graph.split is None and graph.adjacency.degree.min() >= 10 and graph.notes == ()
    assert load("digits").fingerprint == graph.fingerprint


def test_digits_has_the_edges_of_an_independent_search() -> None:
    from sklearn.neighbors import NearestNeighbors

    graph = load("digits")
    distances, _ = NearestNeighbors(n_neighbors=10).fit(graph.features).kneighbors()
    ends = graph.adjacency.edge_index()
    length = np.linalg.norm(graph.features[ends[0]] - graph.features[ends[1]], axis=1)
    reach = distances[:, -1]
    # every edge is within one of its ends' reach, and everything strictly within reach is an edge
    assert np.all(length <= np.maximum(reach[ends[0]], reach[ends[1]]) + 1e-5)
    assert np.all(np.bincount(ends[0][length <= reach[ends[0]] + 1e-5], minlength=1797) >= 10)


def test_nearest_prefers_the_lower_position_on_ties() -> None:
    points = np.array([[0], [1], [-1], [2], [1]])
    assert nearest(points, 2).toarray().nonzero()[1].reshape(5, 2).tolist() == [[1, 2], [0, 4], [0, 1], [1, 4], [0, 1]]


def test_the_number_of_nodes_can_be_written_into_the_name() -> None:
    assert load("synthetic:70").num_nodes == 70


@pytest.mark.parametrize("name", ["synthetic:x", "synthetic:-5", "cora:10", "synthetic:" + "9" * 5000])
def test_a_name_with_a_strange_size_is_refused(name: str) -> None:
    with pytest.raises(BadUsage):
        load(name)


def test_an_unknown_name_is_answered_with_the_choices() -> None:
    with pytest.raises(UnknownName, match="did you mean 'cora'"):
        load("coro")


def test_where_a_graph_would_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert where_is("digits") == where_is("synthetic") == "built in"
    monkeypatch.setattr(locate, "named_folders", lambda root=None: [tmp_path])
    assert where_is("photo").startswith("not here")
    (tmp_path / PINNED["photo"].path).parent.mkdir(parents=True)
    (tmp_path / PINNED["photo"].path).touch()
    assert where_is("photo") == str(tmp_path / "Photo")
    with pytest.raises(UnknownName):
        where_is("photos")


def test_importing_is_light() -> None:
    """So are the embedded graphs: scikit-learn, which ships their numbers, would bring pandas along."""
    heavy = ("torch_geometric", "networkx", "sklearn", "pandas", "rich", "plotly")
    code = (
        "import sys, graphsde.datasets.benchmarks as found, graphsde.datasets.shifts; "
        f"found.load('digits'), found.load('diabetes'); print(sys.modules.keys() & {set(heavy)})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
