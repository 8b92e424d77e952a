from __future__ import annotations

import base64
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.view.figures.evaluation import (
    EntropyHistogram,
    ReliabilityDiagram,
    RiskCoverageCurves,
    UncertaintyScatter,
)
from graphsde.view.figures.nodes import EgoNode, ego_network_svg, pixel_png
from graphsde.view.figures.style import BLUE, plot_text, thin
from graphsde.view.figures.training_curve import TrainingCurve, best_epoch

HOSTILE = "<img src=x onerror=alert(1)>"


def test_histogram_holds_counts_not_nodes() -> None:
    rng = np.random.default_rng(0)
    total, right = rng.uniform(0, np.log(5), 9000), rng.random(9000) < 0.8
    figure = EntropyHistogram.of(total, right, num_classes=5).plotly()
    for trace, group in zip(figure.data, (right, ~right), strict=True):
        assert len(trace.y) == 30
        assert sum(trace.customdata) == group.sum()
        assert sum(trace.y) == pytest.approx(100, abs=0.01)


def test_histogram_puts_values_into_the_right_bin() -> None:
    total = np.array([0.0, np.log(2), np.log(2) + 1e-12])
    right, wrong = EntropyHistogram.of(total, np.array([True, False, False]), 2).plotly().data
    assert right.customdata[0] == 1 and sum(right.customdata) == 1
    assert wrong.customdata[-1] == 2 and wrong.name == "wrong (n = 2)"


def test_histogram_without_truth_is_one_group() -> None:
    assert len(EntropyHistogram.of(np.ones(3), None, 3).plotly().data) == 1


def test_risk_coverage_by_hand() -> None:
    curves = {"one": (np.array([0.1, 0.2, 0.3, 0.4]), np.array([False, True, False, False]))}
    model, oracle, random = RiskCoverageCurves.of(curves).plotly().data
    assert list(model.x) == [25, 50, 75, 100]
    assert list(model.y) == [0, 50, pytest.approx(100 / 3, rel=1e-4), 25]
    assert list(oracle.y) == [0, 0, 0, 25]
    assert list(random.y) == [25, 25, 25, 25]


def test_risk_coverage_is_thinned_and_between_its_bounds() -> None:
    rng = np.random.default_rng(1)
    errors = rng.random(20_000) < 0.2
    model, oracle, random = RiskCoverageCurves.of({"one": (rng.random(20_000) + errors, errors)}).plotly().data
    assert len(model.x) <= 400 and model.x[-1] == 100
    assert all(best <= own + 1e-9 for best, own in zip(oracle.y, model.y, strict=True))
    assert model.y[-1] == random.y[-1] == pytest.approx(100 * errors.mean(), rel=1e-4)


def test_reliability_by_hand() -> None:
    probs = np.array([[0.9, 0.1], [0.9, 0.1], [0.55, 0.45]])
    bars, _, counts = ReliabilityDiagram.of(probs, np.array([0, 1, 0])).plotly().data
    assert list(counts.y) == [1, 2]
    assert list(bars.y) == [100, 50]
    # of 15 bins, 0.55 is in the ninth and 0.9 in the fourteenth
    assert list(bars.x) == [pytest.approx(8.5 / 15 * 100, rel=1e-4), pytest.approx(13.5 / 15 * 100, rel=1e-4)]


def test_training_curve_skips_what_is_not_a_number() -> None:
    history = [
        {"epoch": 1, "train_loss": 3.0, "val_nll": None},
        {"epoch": 2, "train_loss": float("nan"), "val_nll": 1.5, "val_accuracy": 0.5},
        {"epoch": 3, "train_loss": 2.0, "val_nll": 1.8},
    ]
    loss, nll, _, accuracy, _ = TrainingCurve.of(history).plotly().data  # the others mark the kept epoch
    assert (list(loss.x), list(loss.y)) == ([1, 3], [3, 2])
    assert list(nll.x) == [2, 3]
    assert list(accuracy.y) == [50]
    assert best_epoch(history) == 2
    assert best_epoch(history[:1]) is None


def test_training_curve_is_thinned() -> None:
    history = [{"epoch": e, "train_loss": 1.0 / (e + 1)} for e in range(5000)]
    loss = TrainingCurve.of(history).plotly().data[0]
    assert len(loss.x) <= 400 and (loss.x[0], loss.x[-1]) == (0, 4999)


def test_scatter_is_a_fixed_choice_of_at_most_2000() -> None:
    values = np.random.default_rng(0).random(5000)
    right = values < 0.9
    first, again = (UncertaintyScatter(values, values, right, np.arange(5000)).plotly() for _ in range(2))
    assert sum(len(trace.x) for trace in first.data) == 2000
    assert first.to_dict() == again.to_dict()
    assert all(
        float(f"{values[int(node)]:.5g}") == x
        for trace in first.data
        for node, x in zip(trace.text, trace.x, strict=True)
    )


def test_scatter_draws_nothing_that_needs_eval() -> None:
    assert UncertaintyScatter(np.ones(3), np.ones(3), None, np.arange(3)).plotly().data[0].type == "scatter"


def test_names_in_plots_are_escaped() -> None:
    figure = UncertaintyScatter(np.ones(1), np.ones(1), None, np.array([HOSTILE], dtype=object)).plotly()
    assert figure.data[0].text == ("&lt;img src=x onerror=alert(1)&gt;",)
    assert plot_text(np.int64(7)) == "7"
    assert "\u202e" not in plot_text("a\u202eb")


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 3000), limit=st.integers(2, 500))
def test_thin_keeps_both_ends(length: int, limit: int) -> None:
    rows = thin(length, limit)
    assert len(rows) == min(length, limit) and (rows[0], rows[-1]) == (0, length - 1)
    assert np.all(np.diff(rows) > 0)


def decode_png(uri: str) -> np.ndarray:
    """Independent reader of what the encoder may write: 8-bit greyscale, filter 0."""
    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 0)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


def test_png_has_the_pixels() -> None:
    pixels = np.arange(12.0).reshape(3, 4)
    grey = decode_png(pixel_png(pixels, 0.0, 11.0))
    assert grey.shape == (3, 4) and grey[0, 0] == 255 and grey[2, 3] == 0
    assert np.array_equal(grey, 255 - np.rint(255 * pixels / 11).astype(int))


def test_png_of_odd_pictures() -> None:
    assert decode_png(pixel_png(np.zeros((1000, 300)), 0, 1)).shape == (63, 19)
    assert decode_png(pixel_png(np.full((2, 2), 5.0), 5.0, 5.0)).tolist() == [[255, 255], [255, 255]]
    assert decode_png(pixel_png(np.array([[np.nan, 9.0]]), 0, 1)).tolist() == [[255, 0]]


def test_ego_network_draws_each_node_once() -> None:
    links = np.zeros((3, 3), dtype=bool)
    links[0, 1] = links[1, 0] = True
    svg = ego_network_svg(EgoNode(HOSTILE, BLUE), [EgoNode(f"n{i}", BLUE) for i in range(3)], links)
    root = ElementTree.fromstring(svg)
    assert len(root.findall("circle")) == 4
    kinds = [line.get("class") for line in root.findall("line")]
    assert kinds.count("ego-edge") == 3 and kinds.count("ego-side") == 1
    assert root.findall("circle")[-1].find("title").text == HOSTILE  # type: ignore[union-attr]


def test_ego_network_of_an_isolated_node() -> None:
    root = ElementTree.fromstring(ego_network_svg(EgoNode("a", BLUE), [], np.zeros((0, 0), dtype=bool)))
    assert len(root.findall("circle")) == 1 and not root.findall("line")
