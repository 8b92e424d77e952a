from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.prediction import Trajectories
from graphsde.view.figures.dynamics import SamplePaths, leading_classes

from support import block_graph


@pytest.mark.parametrize("preset", ["universal", "paper", "released"])
def test_paths_end_where_the_prediction_is(preset: str) -> None:
    graph = block_graph()
    model = gs.LGNSDE(preset=preset, epochs=4, hidden=4, evaluate_every=2).fit(graph)
    prediction = model.predict(graph, samples=10)
    paths = model.trajectories(graph, [3, 17], samples=10)
    assert paths.probs.shape == (model.settings.steps + 1, 10, 2, 3)
    assert paths.times[0] == 0 and paths.times[-1] == pytest.approx(model.settings.horizon)
    np.testing.assert_allclose(paths.probs[-1], prediction.probs[:, [3, 17]], atol=2e-5)
    # all paths begin in the encoded features
    np.testing.assert_allclose(paths.probs[0], paths.probs[0, :1].repeat(10, axis=0), atol=1e-6)


def test_the_band_holds_its_share_and_the_figure_shows_the_leading_classes() -> None:
    rng = np.random.default_rng(0)
    raw = rng.random((5, 200, 1, 4)) * np.array([1, 4, 2, 8])
    paths = Trajectories(np.arange(5.0), raw / raw.sum(-1, keepdims=True), np.array(["<b>"]), ("a", "<i>", "c", "d"))
    assert leading_classes(paths, 0).tolist() == [3, 1, 2]
    low, high = paths.band(0, 3)
    inside = (paths.probs[..., 0, 3] >= low[:, None]) & (paths.probs[..., 0, 3] <= high[:, None])
    assert inside.mean() == pytest.approx(0.9, abs=0.02)
    figure = SamplePaths(paths).plotly()
    bands = [trace.fillcolor for trace in figure.data if trace.fill]
    assert len(bands) == 3 and all(band.endswith("0.15)") for band in bands)
    named = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert named == ["class d", "class &lt;i&gt;", "class c"]
