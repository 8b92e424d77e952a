from __future__ import annotations

import dataclasses
import json
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler, normalize

from graphsde.base.errors import BadInput
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.nn import encoding
from graphsde.nn.encoding import MOST_CATEGORIES, FeatureEncoder, looks_like_bag_of_words

from support import block_graph


def words(seed: int = 0) -> sp.csr_array:
    return sp.csr_array(sp.random(30, 50, density=0.1, rng=np.random.default_rng(seed), dtype=np.float32))


def with_text(graph: Graph, **columns: list) -> Graph:
    arrays = {name: np.array(values, dtype=object) for name, values in columns.items()}
    return dataclasses.replace(graph, categorical=MappingProxyType(arrays))


def test_standard_scaling_equals_scikit_learn(blocks: Graph) -> None:
    encoded = FeatureEncoder.fit(blocks, "standard").transform(blocks)
    np.testing.assert_allclose(encoded, StandardScaler().fit_transform(blocks.features), atol=1e-5)


def test_row_scaling_equals_scikit_learn_and_stays_sparse(blocks: Graph) -> None:
    graph = blocks.with_features(words())
    encoded = FeatureEncoder.fit(graph).transform(graph)
    assert sp.issparse(encoded) and FeatureEncoder.fit(graph).scaling == "row"
    np.testing.assert_allclose(encoded.toarray(), normalize(words().toarray(), "l1"), atol=1e-6)
    dense = graph.with_features(words().toarray())
    np.testing.assert_allclose(FeatureEncoder.fit(dense, "row").transform(dense), encoded.toarray(), atol=1e-7)


def test_noise_on_words_leaves_their_scale(blocks: Graph) -> None:
    rng = np.random.default_rng(0)
    counts = (rng.random((blocks.num_nodes, 2000)) < 0.01).astype(np.float32)
    counts[0] = 0
    encoder = FeatureEncoder.fit(blocks.with_features(counts), "row")
    assert encoder.least_sum == pytest.approx(np.quantile(counts[1:].sum(1), 0.05))
    noisy = counts + rng.normal(0, 0.05, counts.shape).astype(np.float32)
    clean, moved = (encoder.transform(blocks.with_features(x)) for x in (counts, noisy))
    present = counts[1:] > 0
    assert np.mean(moved[1:][present]) == pytest.approx(np.mean(clean[1:][present]), rel=0.15)
    np.testing.assert_allclose(moved[0], noisy[0] / max(noisy[0].sum(), encoder.least_sum), rtol=1e-5)
    sparse = encoder.transform(blocks.with_features(sp.csr_array(noisy)))
    np.testing.assert_allclose(sparse.toarray(), moved, rtol=1e-5)
    again = FeatureEncoder.from_dict(json.loads(json.dumps(encoder.as_dict())))
    np.testing.assert_array_equal(again.transform(blocks.with_features(noisy)), moved)


def test_l2_scaling_equals_scikit_learn_and_stays_sparse(blocks: Graph) -> None:
    graph = blocks.with_features(words())
    encoder = FeatureEncoder.fit(graph, "l2")
    encoded = encoder.transform(graph)
    assert sp.issparse(encoded) and encoded.dtype == np.float32
    np.testing.assert_allclose(encoded.toarray(), normalize(words().toarray(), "l2"), atol=1e-6)
    dense = encoder.transform(graph.with_features(words().toarray()))
    assert sp.issparse(dense)  # words in a dense table become sparse
    np.testing.assert_allclose(dense.toarray(), encoded.toarray(), atol=1e-7)
    measured = blocks.features - blocks.features.mean()
    plain = FeatureEncoder.fit(blocks.with_features(measured), "l2")
    assert plain.least_sum is None
    np.testing.assert_allclose(plain.transform(blocks.with_features(measured)), normalize(measured, "l2"), atol=1e-6)


def test_noise_on_words_leaves_their_norm(blocks: Graph) -> None:
    rng = np.random.default_rng(0)
    counts = (rng.random((blocks.num_nodes, 2000)) < 0.01).astype(np.float32)
    counts[0] = 0
    encoder = FeatureEncoder.fit(blocks.with_features(counts), "l2")
    assert encoder.least_sum == pytest.approx(np.quantile(np.linalg.norm(counts[1:], axis=1), 0.05))
    noisy = counts + rng.normal(0, 0.1, counts.shape).astype(np.float32)
    clean, moved = (encoder.transform(blocks.with_features(x)) for x in (counts, noisy))
    present = counts[1:] > 0
    # the noise has as large a norm as the words: dividing by the plain norm would shrink them by a third
    assert np.mean(normalize(noisy[1:])[present]) < 0.8 * np.mean(clean[1:][present])
    assert np.mean(moved[1:][present]) == pytest.approx(np.mean(clean[1:][present]), rel=0.03)
    # a row of noise alone gets no larger than a row of few words
    signed = float((noisy[0] * np.abs(noisy[0])).sum())
    np.testing.assert_allclose(moved[0], noisy[0] / max(np.sqrt(max(signed, 0)), encoder.least_sum), rtol=1e-5)
    sparse = encoder.transform(blocks.with_features(sp.csr_array(noisy)))
    np.testing.assert_allclose(sparse.toarray(), moved, rtol=1e-5)
    again = FeatureEncoder.from_dict(json.loads(json.dumps(encoder.as_dict())))
    np.testing.assert_array_equal(again.transform(blocks.with_features(noisy)), moved)


def test_rows_of_measurements_go_by_absolute_values(blocks: Graph) -> None:
    features = blocks.features - blocks.features.mean()
    graph = blocks.with_features(features)
    encoder = FeatureEncoder.fit(graph, "row")
    assert encoder.least_sum is None
    np.testing.assert_allclose(encoder.transform(graph), normalize(features, "l1"), atol=1e-6)


@pytest.mark.parametrize(
    ("columns", "share", "expected"), [(50, 0.5, True), (5, 0.5, False), (50, 0.1, True), (7, 0.1, False)]
)
def test_indicators_are_words_where_there_are_many(columns: int, share: float, expected: bool) -> None:
    ones = (np.random.default_rng(0).random((200, columns)) < share).astype(np.float32)
    assert looks_like_bag_of_words(ones) is looks_like_bag_of_words(sp.csr_array(ones)) is expected
    assert not looks_like_bag_of_words(ones - 0.5) and not looks_like_bag_of_words(ones[:, :0])


def test_sparse_standard_scaling_keeps_zeros(blocks: Graph) -> None:
    graph = blocks.with_features(words())
    encoded = FeatureEncoder.fit(graph, "standard").transform(graph)
    assert encoded.nnz == words().nnz
    std = words().toarray().std(axis=0)
    np.testing.assert_allclose(encoded.toarray(), words().toarray() / np.where(std > 0, std, 1), rtol=1e-4)


def test_constant_columns_become_zero(blocks: Graph) -> None:
    features = blocks.features.copy()
    features[:, 2] = 0.1
    graph = blocks.with_features(features)
    assert np.abs(FeatureEncoder.fit(graph, "standard").transform(graph)[:, 2]).max() < 1e-6


def test_text_columns_are_one_hot_with_zero_for_unknown_and_missing(blocks: Graph) -> None:
    graph = with_text(blocks, colour=["red", "blue", None] * 10)
    encoder = FeatureEncoder.fit(graph)
    encoded = encoder.transform(graph)
    assert encoder.width == blocks.num_features + 2
    assert encoder.scaling == "standard"
    np.testing.assert_array_equal(encoded[:3, -2:], [[0, 1], [1, 0], [0, 0]])
    other = with_text(blocks, colour=["green"] * 30)
    assert encoder.transform(other)[:, -2:].sum() == 0


def test_rare_values_share_the_zero_code(blocks: Graph) -> None:
    graph = block_graph(per_class=100)
    texts = ["common"] * 50 + [f"name {i}" for i in range(250)]
    encoder = FeatureEncoder.fit(with_text(graph, who=texts))
    assert len(encoder.vocabulary["who"]) == MOST_CATEGORIES and "common" in encoder.vocabulary["who"]
    assert sp.issparse(encoder.transform(with_text(graph, who=texts)))


def test_stored_and_read_again_it_encodes_bitwise_the_same(blocks: Graph) -> None:
    graph = with_text(blocks, colour=["red", "blue", None] * 10)
    encoder = FeatureEncoder.fit(graph)
    again = FeatureEncoder.from_dict(json.loads(json.dumps(encoder.as_dict())))
    np.testing.assert_array_equal(encoder.transform(graph), again.transform(graph))


def test_a_new_graph_is_scaled_with_the_old_statistics(blocks: Graph) -> None:
    encoder = FeatureEncoder.fit(blocks, "standard")
    shifted = blocks.with_features(blocks.features + 1)
    assert encoder.transform(shifted).mean() > 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"feature_names": ("a", "b", "x")}, "missing: c; unknown to the model: x"),
        ({"feature_names": ("b", "a", "c")}, "same names in another order, from column 1"),
        ({"categorical": {}}, "missing: colour"),
    ],
)
def test_another_schema_is_refused_with_the_difference(blocks: Graph, change: dict, words: str) -> None:
    graph = dataclasses.replace(blocks.with_features(blocks.features[:, :3]), feature_names=("a", "b", "c"))
    graph = with_text(graph, colour=["red"] * 30)
    encoder = FeatureEncoder.fit(graph)
    with pytest.raises(BadInput, match=words) as caught:
        encoder.transform(dataclasses.replace(graph, **change))
    assert caught.value.code == "E-SCHEMA"


def test_another_width_is_refused(blocks: Graph) -> None:
    with pytest.raises(BadInput, match="8 numeric features, this graph has 7"):
        FeatureEncoder.fit(blocks).transform(blocks.with_features(blocks.features[:, :7]))


@pytest.mark.parametrize("scaling", ["standard", "row", "l2"])
@pytest.mark.parametrize("columns", [1, 2, 7, 64])
def test_blocks_of_rows_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, scaling: Any, columns: int) -> None:
    features = (10 * np.random.default_rng(1).standard_normal((501, columns)) + 3).astype(np.float32)
    edges = np.zeros((2, 0), dtype=np.int64)
    found = []
    for block in (1 << 22, 100):
        monkeypatch.setattr(encoding, "NUMBERS_AT_ONCE", block)
        graph = from_arrays(features, edges)
        encoder = FeatureEncoder.fit(graph, scaling)
        found.append((encoder.mean, encoder.std, encoder.transform(graph)))
    for whole, parts in zip(*found, strict=True):
        assert np.array_equal(whole, parts)
    if scaling == "standard":
        assert np.array_equal(found[1][1], features.std(axis=0, dtype=np.float64))


def test_columns_are_looked_at_once_per_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = from_arrays(np.arange(12.0).reshape(6, 2), np.zeros((2, 0), dtype=np.int64))
    first = FeatureEncoder.fit(graph)
    monkeypatch.setattr(encoding, "_moments", lambda features: pytest.fail("looked at twice"))
    assert FeatureEncoder.fit(graph) is first
    with pytest.raises(pytest.fail.Exception):
        FeatureEncoder.fit(graph.with_features(np.ones((6, 2), dtype=np.float32)))
