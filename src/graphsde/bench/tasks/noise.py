"""Features or edges that get noisy after training: how fast do accuracy and uncertainty degrade?"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
import scipy.sparse as sp
from pydantic import Field, model_validator

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, validation_figures
from graphsde.datasets.shifts import add_edges, drop_edges, gaussian_noise
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate

SHOWN = ("accuracy", "micro_auroc", "aurc", "misclassification_auroc", "nll", "ece")


class NoiseOptions(TaskOptions):
    """Options of :class:`FeatureNoise`.

    Args:
        severities: multiples of the features' standard deviation, or shares of the edges; 0 is the clean graph.
        draws: of the noise, the same for every model; metrics are means over them.
        rows: which features get noise: those of all nodes, or only of test nodes.
        on: ``features``, or ``edges``: a share of the edges is removed, and as many are drawn between nodes that had
            none.
    """

    severities: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] = (0.1, 0.25, 0.5, 1.0, 2.0)
    draws: int = Field(5, ge=1, le=1000)
    rows: Literal["all", "test"] = "all"
    on: Literal["features", "edges"] = "features"

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.on == "edges" and "severities" in self.model_fields_set and max(self.severities, default=0.0) > 1:
            raise ValueError("at most all edges can be changed: severities up to 1")
        return self

    @property
    def steps(self) -> tuple[float, ...]:
        """The severities; of the defaults, only those up to 1 if edges are changed."""
        return self.severities if self.on == "features" else tuple(one for one in self.severities if one <= 1)


class FeatureNoise(Task):
    """Train on the clean graph, test on ``X + severity · ε``, ε as spread as the test features, or on other edges.

    Metrics at a severity are named ``accuracy@0.5`` and so on; ``accuracy@0`` is the clean graph. The printed protocol
    is severity 0.5.
    """

    name = "noise"
    summary = "accuracy and uncertainty on test nodes whose features or edges got noisy after training"
    Options = NoiseOptions
    options: NoiseOptions
    headline = ("accuracy@0.5", "micro_auroc@0.5", "aurc@0.5", "accuracy@0")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = self.fit_timed(make, graph)
        clean = self.predict(model, graph)
        figures = evaluate(clean, graph)
        metrics = {f"{name}@0": figures[name] for name in SHOWN}
        severities = [0.0, *self.options.steps]
        for severity in self.options.steps:
            drawn = (self._noisy(graph, severity, draw) for draw in range(self.options.draws))
            found = [evaluate(self.predict(model, noisy), noisy) for noisy in drawn]
            for name in SHOWN:
                metrics[f"{name}@{severity:g}"] = float(np.mean([figures[name] for figures in found]))
        curves = {name: [metrics[f"{name}@{severity:g}"] for severity in severities] for name in SHOWN}
        curves["severity"] = severities
        return Measurement(metrics | validation_figures(clean, graph) | cost, curves)

    def _noisy(self, graph: Graph, severity: float, draw: int) -> Graph:
        if self.options.on == "features":
            return gaussian_noise(graph, severity=severity, rows=self.options.rows, seed=draw)
        # new edges are drawn first, so that no removed edge comes back
        more = add_edges(graph, share=severity, seed=draw)
        lost = drop_edges(graph, share=severity, seed=draw)
        kept = sp.csr_array(more.adjacency.matrix - graph.adjacency.matrix + lost.adjacency.matrix)
        kept.eliminate_zeros()
        return graph.with_adjacency(Adjacency(kept, directed=graph.adjacency.directed))
