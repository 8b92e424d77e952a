"""Which benchmark a graph is: proven when it is loaded, kept from then on, never a matter of what it is called."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput
from graphsde.datasets import benchmarks, planetoid
from graphsde.datasets.benchmarks import DATASETS, load
from graphsde.datasets.shifts import drop_edges, gaussian_noise
from graphsde.datasets.source import GraphSource
from graphsde.datasets.splits import default_split, make_split
from graphsde.graph.graph import Graph
from graphsde.models import MODELS

from support import needs_real_data

pytestmark = pytest.mark.usefixtures("own_cache")

BENCHMARKS = [name for name in DATASETS if "fingerprint" in DATASETS.entry(name).facts]


def shop(target: str = "classification") -> Graph:
    """Large enough for 20 training and 30 validation nodes per class, so that the Amazon split could be drawn."""
    return gs.synthetic(200, classes=3, seed=3) if target == "classification" else gs.synthetic_regression(200, seed=3)


def opened(folder: Path) -> tuple[Graph, dict[str, object]]:
    graph, facts = GraphSource.typed(str(folder)).open()
    return graph, {key: facts[key] for key in ("split", "split_hash", "fingerprint", "sizes")}


def test_eight_benchmarks_are_pinned() -> None:
    assert BENCHMARKS == ["digits", "diabetes", "cora", "citeseer", "pubmed", "computers", "photo", "coauthor-cs"]


@pytest.mark.parametrize("target", ["classification", "regression"])
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_folder_named_like_a_benchmark_is_read_split_and_learned_like_any_other(
    tmp_path: Path, name: str, target: str
) -> None:
    neutral, namesake = tmp_path / "shop", tmp_path / name
    gs.write_tables(dataclasses.replace(shop(target), name="shop"), neutral)
    shutil.copytree(neutral, namesake)
    said = (neutral / "graph.yaml").read_text()
    (namesake / "graph.yaml").write_text(said.replace("name: shop", f"name: {name}"))
    (mine, facts), (other, others_facts) = opened(neutral), opened(namesake)
    assert (mine.name, other.name) == ("shop", name) and other.benchmark is None
    assert facts == others_facts and default_split(other) == "given"
    assert all(np.array_equal(mine.masks[role], other.masks[role]) for role in mine.masks)
    if target == "classification":
        assert make_split(mine, "label-leave-out").hash == make_split(other, "label-leave-out").hash
    presets = ("closed-world", "open-world", "paper", "released")
    for model, settings in [(one, {}) for one in MODELS] + [("lgnsde", {"preset": preset}) for preset in presets]:
        first, second = MODELS.get(model)(**settings), MODELS.get(model)(**settings)
        if target not in MODELS.entry(model).facts["targets"]:
            continue
        first.resolve(mine)
        second.resolve(other)
        assert first.settings == second.settings, model
    for model in ("gcn", "lgnsde"):
        first, second = (MODELS.get(model)(epochs=2).fit(graph).predict(graph, samples=2) for graph in (mine, other))
        assert np.array_equal(first.mean, second.mean)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_no_reader_and_no_converter_makes_a_benchmark(tmp_path: Path, name: str) -> None:
    graph = dataclasses.replace(shop(), name=name)
    file = tmp_path / f"{name}.npz"
    np.savez(file, features=graph.features, edge_index=graph.adjacency.edge_index(), labels=graph.labels)
    made = [
        gs.read(file),
        gs.read(file, name=name),
        gs.from_networkx(gs.to_networkx(graph)),
        gs.from_arrays(graph.features, graph.adjacency.matrix, labels=graph.labels, name=name),
    ]
    assert [one.benchmark for one in made] == [None] * 4 and made[1].name == name


def test_a_benchmark_written_to_tables_is_the_users_own(tmp_path: Path) -> None:
    gs.write_tables(load("digits"), tmp_path / "digits")
    assert gs.read(tmp_path / "digits").benchmark is None


def test_it_stays_what_it_is_under_every_change() -> None:
    digits = load("digits")
    mask = np.arange(digits.num_nodes) < 400
    for graph in (
        digits.with_masks(train=mask),
        digits.with_features(np.asarray(digits.features) + 1),
        digits.with_adjacency(digits.adjacency),
        digits.subgraph(mask),
        dataclasses.replace(digits, name="mine"),
        make_split(digits, "leave-class-out").apply(digits),
        gaussian_noise(digits),
        drop_edges(digits),
    ):
        assert graph.benchmark == "digits"
    assert gs.synthetic(100).benchmark is None


def test_what_is_not_the_known_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    digits = load("digits")
    monkeypatch.setattr(benchmarks, "load_digits_graph", lambda: digits.subgraph(np.arange(1796)))
    with pytest.raises(BadInput, match="'digits' is not the expected one") as caught:
        load("digits")
    assert caught.value.code == "E-HASH" and digits.fingerprint in str(caught.value.expected)


@needs_real_data
def test_another_graph_in_the_cache_of_conversions_is_refused() -> None:
    assert load("cora").benchmark == "cora"
    key = f"cora-{planetoid.CONVERSION}"
    kept = planetoid.read_converted(key)
    assert kept is not None
    planetoid.write_converted(key, kept | {"data": kept["data"] * 2})
    with pytest.raises(BadInput, match="delete") as caught:
        load("cora")
    assert caught.value.code == "E-HASH"
    planetoid.write_converted(key, kept)
    assert load("cora").benchmark == "cora"
