"""Splits: disjoint, of the right size, reproducible, and as the literature counts them."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, BadUsage, UnknownName
from graphsde.datasets.benchmarks import load
from graphsde.datasets.splits import SPLITS, Split, default_split, has_public_masks, make_split
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph

from support import block_graph, needs_real_data

SEEDED = ("shchur", "fractions", "gpn", "geom-48-32-20", "uniform-10-10-80", "leave-class-out", "label-leave-out")


pytestmark = pytest.mark.usefixtures("own_cache")


@cache
def real(name: str) -> Graph:
    return load(name)


def random_graph(counts: list[int], unlabelled: int = 0, seed: int = 0) -> Graph:
    labels = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(unlabelled, -1)])
    labels = np.random.default_rng(seed).permutation(labels)
    ring = np.arange(labels.size)
    names = [f"class {one}" for one in range(len(counts))]
    return from_arrays(
        np.ones((labels.size, 1)), np.stack([ring, np.roll(ring, 1)]), labels=labels, class_names=names, name="ring"
    )


COUNTS = st.lists(st.integers(12, 60), min_size=3, max_size=6)


@settings(max_examples=30, deadline=None)
@given(counts=COUNTS, unlabelled=st.integers(0, 20), seed=st.integers(0, 5), name=st.sampled_from(SEEDED))
def test_disjoint_labelled_and_reproducible(counts: list[int], unlabelled: int, seed: int, name: str) -> None:
    graph = random_graph(counts, unlabelled, seed)
    options = {"train": 4, "val": 4} if name == "shchur" else {}
    split = make_split(graph, name, seed=seed, **options)
    assert np.sum(list(split.masks.values()), axis=0).max() == 1
    assert not any(mask[~graph.labelled].any() for mask in split.masks.values())
    assert all(mask.any() for role, mask in split.masks.items() if role in ("train", "val", "test"))
    assert split.hash == make_split(graph, name, seed=seed, **options).hash
    other = make_split(graph, name, seed=seed + 1, **options)
    assert split.hash != other.hash and not np.array_equal(split.masks["train"], other.masks["train"])
    applied = split.apply(graph)
    assert applied.split == name and {role: int(mask.sum()) for role, mask in applied.masks.items()} == split.sizes


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    shares=st.sampled_from([(0.6, 0.15, 0.15, 0.1), (0.05, 0.15, 0, 0.8), (0.5, 0.5, 0, 0), (0.2, 0.1, 0.1, 0.1)]),
    seed=st.integers(0, 3),
)
def test_fractions_are_right_in_all_and_in_every_class(
    counts: list[int], shares: tuple[float, float, float, float], seed: int
) -> None:
    if sum(counts) < 2:
        return
    graph = random_graph(counts, 3)
    roles = ("train", "val", "calibration", "test")
    split = make_split(graph, "fractions", seed=seed, **dict(zip(roles, shares, strict=True)))
    rescued = sum(0 < count * shares[0] < 2 for count in counts)  # may have needed a training node of their own
    for role, share in zip(roles, shares, strict=True):
        if share == 0:
            assert role not in split.masks
            continue
        per_class = np.bincount(graph.labels[split.masks[role]], minlength=len(counts))  # type: ignore[index]
        assert np.all(np.abs(per_class - share * np.array(counts)) <= 2)
        assert abs(per_class.sum() - share * sum(counts)) <= 1 + rescued
    train = np.bincount(graph.labels[split.masks["train"]], minlength=len(counts))  # type: ignore[index]
    assert np.all((train > 0) == (np.array(counts) > 0))
    if sum(shares) == pytest.approx(1):
        assert sum(split.sizes.values()) == sum(counts)


def test_many_tiny_classes_still_leave_something_to_test() -> None:
    split = make_split(random_graph([2] * 200), "fractions")
    assert split.sizes == pytest.approx({"train": 240, "val": 60, "calibration": 60, "test": 40}, abs=20)
    train = np.bincount(random_graph([2] * 200).labels[split.masks["train"]])  # type: ignore[index]
    assert train.min() == 1


def test_each_class_gives_its_quota_at_random() -> None:
    graph = random_graph([30, 50, 80])
    hits = np.zeros(160)
    for seed in range(200):
        split = make_split(graph, "shchur", seed=seed, train=6, val=9)
        assert np.bincount(graph.labels[split.masks["train"]]).tolist() == [6, 6, 6]  # type: ignore[index]
        assert np.bincount(graph.labels[split.masks["val"]]).tolist() == [9, 9, 9]  # type: ignore[index]
        hits += split.masks["train"]
    share = hits / 200
    for position, count in enumerate([30, 50, 80]):
        assert share[graph.labels == position].mean() == pytest.approx(6 / count)
        assert share[graph.labels == position].max() < 6 / count + 0.2


def test_a_class_too_small_is_named_with_its_count_and_the_quota() -> None:
    with pytest.raises(BadInput) as caught:
        make_split(random_graph([60, 49, 60]), "shchur")
    assert caught.value.code == "E-CLASS-SMALL"
    for word in ("class 1", "49", "50"):
        assert word in caught.value.message


@needs_real_data
@pytest.mark.parametrize(
    ("name", "nodes", "shchur", "lcc"),
    [
        ("cora", 2485, (140, 210, 2135), (140, 1360, 985)),
        ("citeseer", 2120, (120, 180, 1810), (120, 1380, 610)),  # 10 nodes of its largest component have no label
        ("pubmed", 19717, (60, 90, 19567), (60, 1440, 18217)),
        ("computers", 13381, (200, 300, 12881), (200, 1300, 11881)),
        ("photo", 7487, (160, 240, 7087), (160, 1340, 5987)),
    ],
)
def test_the_families_on_the_largest_component(
    name: str, nodes: int, shchur: tuple[int, ...], lcc: tuple[int, ...]
) -> None:
    for family, sizes in (("shchur", shchur), ("lcc-1500", lcc)):
        split = make_split(real(name), family)
        graph = split.apply(real(name))
        assert graph.num_nodes == nodes and tuple(split.sizes.values()) == sizes
        assert len(np.unique(graph.adjacency.components)) == 1
        train = np.bincount(graph.labels[graph.train_mask])  # type: ignore[index]
        assert train.tolist() == [20] * graph.num_classes


@needs_real_data
@pytest.mark.parametrize(
    ("name", "left", "nodes"),
    [
        ("cora", 131, 2485),
        ("citeseer", 304, 2120),
        ("computers", 283, 13381),
        ("photo", 331, 7487),
        ("pubmed", 7875, 19717),
    ],
)
def test_the_base_rates_of_the_last_class(name: str, left: int, nodes: int) -> None:
    graph = make_split(real(name), "leave-class-out", base="lcc-1500").apply(real(name))
    original = make_split(real(name), "lcc-1500").apply(real(name)).labels
    assert graph.num_nodes == nodes
    assert int((original == real(name).num_classes - 1).sum()) == left  # type: ignore[union-attr]
    assert int((graph.labels == -1).sum()) == left + (10 if name == "citeseer" else 0)  # type: ignore[union-attr]


@needs_real_data
def test_leave_class_out_on_cora() -> None:
    cora = real("cora")
    split = make_split(cora, "leave-class-out")
    left = cora.labels == 6
    assert split.sizes == {"train": 120, "val": 471, "test": 936, "ood": 64}
    assert np.array_equal(split.masks["ood"], left & cora.test_mask)
    graph = split.apply(cora)
    assert graph.num_nodes == 2708 and graph.num_edges == 10556 and graph.class_names == ("0", "1", "2", "3", "4", "5")
    assert np.array_equal(graph.labels == -1, left)
    assert np.array_equal(graph.labels[~left], cora.labels[~left])  # type: ignore[index]
    compat = make_split(cora, "leave-class-out", compat=True)
    assert np.array_equal(compat.masks["val"], cora.val_mask) and compat.sizes["train"] == 120


@needs_real_data
@pytest.mark.parametrize(("name", "train"), [("cora", 140), ("citeseer", 120), ("computers", 200), ("photo", 160)])
def test_the_papers_table_of_statistics(name: str, train: int) -> None:
    graph = real(name)
    split = make_split(graph, "paper-statistics", seed=4)
    assert split.sizes == {"train": train, "val": 500, "test": 1000} and split.nodes is None
    assert np.bincount(graph.labels[split.masks["train"]]).tolist() == [20] * graph.num_classes  # type: ignore[index]
    public = graph.train_mask is not None
    assert public == (name in ("cora", "citeseer"))
    another = make_split(graph, "paper-statistics", seed=5)
    for role in split.masks:
        assert not public or np.array_equal(split.masks[role], graph.masks[role])
        assert np.array_equal(split.masks[role], another.masks[role]) == public


def test_the_papers_sizes_on_any_graph_with_classes() -> None:
    graph = random_graph([60, 60])
    split = make_split(graph, "paper-statistics", seed=1, train=5, val=20, test=40)
    assert split.sizes == {"train": 10, "val": 20, "test": 40} and split.name == "paper-statistics"
    assert np.bincount(graph.labels[split.masks["train"]]).tolist() == [5, 5]  # type: ignore[index]
    assert split.hash == make_split(graph, "paper-statistics", seed=1, train=5, val=20, test=40).hash
    assert split.hash != make_split(graph, "paper-statistics", seed=2, train=5, val=20, test=40).hash
    with pytest.raises(BadInput) as caught:
        make_split(graph, "paper-statistics", val=50)
    assert caught.value.code == "E-GRAPH-SMALL"


def test_leaving_a_middle_class_closes_the_gap_in_the_head() -> None:
    graph = block_graph(classes=4)
    split = make_split(graph, "leave-class-out", leave="class 1")
    shrunk = split.apply(graph)
    assert shrunk.class_names == ("class 0", "class 2", "class 3")
    assert [shrunk.labels[graph.labels == one].tolist()[0] for one in range(4)] == [0, -1, 1, 2]  # type: ignore[index]
    kept = make_split(graph, "leave-class-out", leave=1, remap=False).apply(graph)
    assert np.array_equal(kept.labels, graph.labels) and kept.class_names == graph.class_names
    assert np.array_equal(kept.ood_mask, shrunk.ood_mask) and kept.ood_mask.any()  # type: ignore[union-attr]
    several = make_split(graph, "leave-class-out", leave=["class 0", 3])
    assert several.classes == (1, 2)
    assert np.array_equal(several.masks["ood"], np.isin(graph.labels, [0, 3]) & graph.test_mask)


@pytest.mark.parametrize("leave", ["class 9", 3, -1, ["class 0", "class 1"]])
def test_what_can_not_be_left_out(leave: object) -> None:
    with pytest.raises(BadUsage):
        make_split(block_graph(classes=3), "leave-class-out", leave=leave)


@needs_real_data
@pytest.mark.parametrize(
    ("name", "tested", "ood"),
    [
        ("cora", 316, 986),
        ("computers", 3002, 9692),
        ("photo", 2477, 3673),
        ("citeseer", 560, 839),
        ("pubmed", 820, 4103),
    ],
)
def test_label_leave_out_counts_and_chance(name: str, tested: int, ood: int) -> None:
    split = make_split(real(name), "label-leave-out")
    assert (split.sizes["test"], split.sizes["ood"]) == (tested, ood)
    chance = {"cora": 0.2427, "computers": 0.2365}.get(name)
    assert chance is None or tested / (tested + ood) == pytest.approx(chance, abs=5e-5)
    graph = split.apply(real(name))
    assert graph.num_classes == real(name).num_classes and np.array_equal(graph.labels, real(name).labels)


@needs_real_data
def test_label_leave_out_on_cora_keeps_the_public_masks_of_the_known_classes() -> None:
    cora = real("cora")
    split = make_split(cora, "label-leave-out")
    known = cora.labels > 3  # type: ignore[operator]
    for role in ("train", "val", "test"):
        assert np.array_equal(split.masks[role], cora.masks[role] & known)
    assert split.sizes["train"] == 60
    assert np.array_equal(split.masks["exposure"], cora.labels == 3)
    assert not any(mask[cora.labels == 3].any() for role, mask in split.masks.items() if role != "exposure")
    assert make_split(cora, "label-leave-out", remap=True).apply(cora).class_names == ("4", "5", "6")


@needs_real_data
def test_the_feature_shift_compares_as_many_nodes_as_published() -> None:
    tested = make_split(real("computers"), "uniform-10-10-80").sizes["test"]
    assert tested == 11002 and tested / (tested + real("computers").num_nodes) == pytest.approx(0.444, abs=5e-4)
    tested = make_split(real("cora"), "planetoid").sizes["test"]
    assert tested / (tested + real("cora").num_nodes) == pytest.approx(0.2697, abs=5e-5)


@needs_real_data
def test_the_one_draw_of_gnsd_is_the_same_for_every_seed() -> None:
    """The published code permutes the positions of the known nodes once, by numpy's old generator with seed 123."""
    graph = real("computers")
    known = np.flatnonzero(graph.labels > 5)  # type: ignore[operator]
    assert known.size == 3752
    order = known[np.random.RandomState(123).permutation(3752)]
    for seed in (0, 7):
        split = make_split(graph, "label-leave-out", draw="gnsd", seed=seed)
        assert np.array_equal(np.flatnonzero(split.masks["train"]), np.sort(order[:375]))
        assert np.array_equal(np.flatnonzero(split.masks["val"]), np.sort(order[375:750]))
        assert np.array_equal(np.flatnonzero(split.masks["test"]), np.sort(order[750:]))
    shifted = make_split(graph, "uniform-10-10-80", draw="gnsd")
    assert np.flatnonzero(shifted.masks["train"]).sum() == np.random.RandomState(123).permutation(13752)[:1375].sum()
    with pytest.raises(BadUsage, match="no draw"):
        make_split(graph, "uniform-10-10-80", draw="lucky")


@pytest.mark.parametrize(
    ("classes", "known", "ood"), [(3, 2, 1), (4, 2, 1), (5, 2, 2), (6, 2, 3), (7, 3, 3), (10, 4, 5)]
)
def test_half_of_the_classes_are_foreign_but_two_stay(classes: int, known: int, ood: int) -> None:
    graph = random_graph([20] * classes)
    split = make_split(graph, "label-leave-out")
    used = np.any([split.masks[role] for role in ("train", "val", "test")], axis=0)
    assert np.unique(graph.labels[used]).tolist() == list(range(classes - known, classes))  # type: ignore[index]
    assert np.unique(graph.labels[split.masks["ood"]]).tolist() == list(range(ood))  # type: ignore[index]


def test_label_leave_out_needs_three_classes() -> None:
    with pytest.raises(BadUsage):
        make_split(random_graph([30, 30]), "label-leave-out")
    with pytest.raises(BadUsage):
        make_split(random_graph([30, 30, 30]), "label-leave-out", threshold=0)


def test_given_masks_lose_nodes_without_a_label() -> None:
    graph = random_graph([10, 10], unlabelled=10)
    graph = graph.with_masks(train=np.arange(30) < 10, test=np.arange(30) >= 10)
    split = make_split(graph, "given")
    assert sum(split.sizes.values()) == 20


def test_what_a_graph_gets_when_nobody_says() -> None:
    plain, blocks = synthetic(60, features=8), block_graph()
    assert default_split(plain) == "fractions" and default_split(blocks) == "given"
    tested = plain.with_masks(test=np.arange(plain.num_nodes) < 30)
    with pytest.raises(BadInput, match="E-SPLIT-EMPTY"):  # a new split could train on these
        default_split(tested)
    for name in ("given", "planetoid"):
        with pytest.raises(BadUsage, match="shchur") as caught:
            make_split(plain, name)
        assert caught.value.code == "E-NO-MASKS"


@needs_real_data
def test_the_public_split_of_the_largest_component() -> None:
    citeseer = real("citeseer")
    part = make_split(citeseer, "planetoid", lcc=True).apply(citeseer)
    assert part.num_nodes == 2120  # as published
    assert part.train_mask is not None and citeseer.train_mask is not None
    assert part.train_mask.sum() < citeseer.train_mask.sum() == 120
    was_training = set(citeseer.node_ids[citeseer.train_mask].tolist())
    assert set(part.node_ids[part.train_mask].tolist()) <= was_training
    pubmed = real("pubmed")  # one component
    assert make_split(pubmed, "planetoid", lcc=True).sizes == make_split(pubmed, "planetoid").sizes


@needs_real_data
def test_public_masks_are_known_until_they_are_replaced() -> None:
    cora = real("cora")
    assert has_public_masks(cora) and default_split(make_split(cora, "planetoid").apply(cora)) == "planetoid"
    drawn = make_split(cora, "shchur", lcc=False).apply(cora)
    assert not has_public_masks(drawn) and default_split(drawn) == "given"
    with pytest.raises(BadUsage):
        make_split(drawn, "planetoid")
    assert not has_public_masks(
        cora.with_masks(split="mine", **{role: mask[::-1] for role, mask in cora.masks.items()})
    )


@pytest.mark.parametrize("name", [name for name in SPLITS if name not in ("given", "planetoid")])
def test_a_graph_without_labels_can_not_be_divided(name: str) -> None:
    graph = from_arrays(np.eye(30), np.stack([np.arange(29), np.arange(1, 30)]))
    with pytest.raises(BadInput) as caught:
        make_split(graph, name)
    assert caught.value.code == "E-NO-LABELS"


def test_names_options_and_seeds_that_are_wrong() -> None:
    graph = random_graph([60, 60])
    with pytest.raises(UnknownName, match="shchur"):
        make_split(graph, "schur")
    with pytest.raises(BadUsage, match="lcc"):
        make_split(graph, "shchur", lc=False)
    with pytest.raises(BadUsage, match="seed"):
        make_split(block_graph(), "given", seed=-1)
    for share in (0.9, 0.0, -0.1, float("nan"), "much"):
        with pytest.raises(BadUsage, match="shares"):
            make_split(graph, "fractions", train=share)
    for name, option in (
        ("shchur", "train"),
        ("lcc-1500", "development"),
        ("calibration", "size"),
        ("paper-statistics", "test"),
    ):
        for value in (0, 1.5, "many"):
            with pytest.raises(BadUsage, match=option):
                make_split(graph, name, **{option: value})
    with pytest.raises(BadInput) as caught:
        make_split(graph, "lcc-1500")
    assert caught.value.code == "E-GRAPH-SMALL"
    assert make_split(graph, "lcc-1500", development=50, train=5).sizes == {"train": 10, "val": 40, "test": 70}


def test_the_options_in_the_list_are_those_of_the_makers() -> None:
    for entry in SPLITS.describe():
        parameters = inspect.signature(SPLITS.get(entry["name"])).parameters
        assert list(entry.get("options", ())) == [one for one in parameters if one not in ("graph", "seed")]


def test_a_split_of_ones_own_can_be_added() -> None:
    def first_half(graph: Graph, *, seed: int = 0, **options: object) -> Split:
        return Split("first-half", seed, {"train": np.arange(graph.num_nodes) < graph.num_nodes // 2})

    SPLITS.add("first-half", first_half, summary="for this test")
    try:
        assert make_split(block_graph(), "first-half", anything=1).sizes == {"train": 15}
    finally:
        del SPLITS._entries["first-half"]


def test_foreign_classes_can_not_be_left_out_twice() -> None:
    with pytest.raises(BadUsage, match="already leaves out classes"):
        make_split(block_graph(classes=4), "leave-class-out", base="leave-class-out")


def test_a_split_is_a_value() -> None:
    masks = {"train": np.array([True, False, False]), "test": np.array([False, True, True])}
    split = Split("mine", 0, masks)
    masks["train"][1] = True
    assert split.sizes == {"train": 1, "test": 2}
    with pytest.raises(ValueError, match="read-only"):
        split.masks["train"][1] = True
    changes = [
        Split("other", 0, split.masks),
        Split("mine", 1, split.masks),
        Split("mine", 0, {"train": split.masks["test"], "test": split.masks["train"]}),
        Split("mine", 0, split.masks, nodes=np.array([0, 1])),
        Split("mine", 0, split.masks, nodes=np.array([0, 2])),
        Split("mine", 0, split.masks, classes=(0, 1)),
    ]
    assert len({split.hash, *(one.hash for one in changes)}) == 7
    assert Split("mine", 0, dict(reversed(split.masks.items()))).hash == split.hash


def test_overlapping_roles_are_refused() -> None:
    both = np.array([True, False])
    with pytest.raises(BadInput) as caught:
        Split("mine", 0, {"train": both, "test": both})
    assert caught.value.code == "E-MASK-OVERLAP"


def test_a_split_of_another_graph_is_refused() -> None:
    with pytest.raises(BadInput):
        make_split(random_graph([20, 20]), "fractions").apply(random_graph([20, 21]))


def test_splits_are_the_same_on_every_machine() -> None:
    """Pinned, so that a change of the draws does not go unnoticed: stored runs name a split by its hash."""
    split = make_split(random_graph([20, 30, 40]), "fractions", seed=7)
    assert np.flatnonzero(split.masks["test"]).tolist() == PINNED_TEST_NODES


PINNED_TEST_NODES = [6, 7, 10, 22, 29, 37, 43, 53, 78]
