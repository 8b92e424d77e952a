"""Does an adaptive solver take more steps, that is layers, on harder tasks? The paper says so; this counts them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import numpy_stream
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions
from graphsde.bench.theory.subject import Subject
from graphsde.datasets.shifts import gaussian_noise
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate
from graphsde.models import LGNSDE, Model
from graphsde.sde.adaptive import integrate_adaptive

VALUES = {"noise": (0.0, 0.5, 1.0, 2.0, 4.0), "labels": (20.0, 10.0, 5.0, 2.0, 1.0)}


class AdaptiveDepthOptions(TaskOptions):
    """Options of :class:`AdaptiveDepth`.

    Args:
        axis: what makes the task harder: ``noise`` on the features, in standard deviations, in training and test
            alike; or fewer ``labels`` per class.
        values: of that, from easy to hard.
        tolerances: of the solver, relative and absolute. Steps are halved or not, so their number jumps by powers of
            two; a mean over tolerances a half power apart shows smaller differences.
        paths: solved adaptively at each value and tolerance.
    """

    axis: Literal["noise", "labels"] = "noise"
    values: tuple[float, ...] | None = None
    tolerances: tuple[float, ...] = tuple(1e-3 * 2.0 ** (-k / 2) for k in range(8))
    paths: int = Field(1, ge=1, le=64)


class AdaptiveDepth(Task):
    """A latent SDE is fitted at every difficulty; its learned equation is then solved with steps chosen by error.

    ``steps@v`` is the mean number of accepted steps of a path at difficulty v, over paths and tolerances; ``error@v``
    one minus the accuracy on test nodes; ``entropy@v`` their mean predictive entropy; ``drift@v`` the root mean square
    of the drift at the start.
    ``rank_correlation`` is Spearman's between steps and error over the difficulties of this cell: the claim says 1.
    Steps measure how fast the learned field changes along the path; nothing ties that to the difficulty of labels.
    """

    name = "adaptive-depth"
    summary = "steps that an adaptive solver takes on a fitted latent SDE, as the task gets harder"
    Options = AdaptiveDepthOptions
    options: AdaptiveDepthOptions
    headline = ("rank_correlation", "steps_easiest", "steps_hardest", "error_easiest", "error_hardest")

    def shared_fit(self, graph: Graph) -> list[Any] | None:
        return None  # every difficulty has its own

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        values = self.options.values or VALUES[self.options.axis]
        if len(values) < 2:
            raise BadUsage("a trend needs several values", code="E-SETTING", found=list(values), expected="two or more")
        curves: dict[str, list[float]] = {"difficulty": list(range(len(values))), "value": list(values)}
        metrics: dict[str, float] = {}
        for value in values:
            harder = self._harder(graph, value, seed)
            model, cost = self.fit_timed(make, harder)
            found = self._figures(model, harder) | {"epochs": cost["epochs"]}
            for name, figure in found.items():
                metrics[f"{name}@{value:g}"] = figure
                curves.setdefault(name, []).append(figure)
        steps, error = curves["steps"], curves["error"]
        metrics |= {"steps_easiest": steps[0], "steps_hardest": steps[-1]}
        metrics |= {"error_easiest": error[0], "error_hardest": error[-1]}
        from scipy.stats import spearmanr  # takes a second to import, and every worker process imports this module

        constant = len(set(steps)) == 1 or len(set(error)) == 1
        metrics["rank_correlation"] = float("nan") if constant else float(spearmanr(steps, error).statistic)
        return Measurement(metrics, curves)

    def _harder(self, graph: Graph, value: float, seed: int) -> Graph:
        if self.options.axis == "noise":
            return gaussian_noise(graph, severity=value, seed=seed) if value > 0 else graph
        assert graph.labels is not None
        kept = np.zeros(graph.num_nodes, dtype=bool)
        order = numpy_stream(seed, "labels kept").permutation(np.flatnonzero(graph.masks["train"]))
        for position in range(graph.num_classes):
            kept[order[graph.labels[order] == position][: int(value)]] = True
        others = {role: mask for role, mask in graph.masks.items() if role != "train"}
        return graph.with_masks(split=graph.split, train=kept, **others)

    def _figures(self, model: Model, graph: Graph) -> dict[str, float]:
        prediction = self.predict_classes(model, graph)
        assert graph.test_mask is not None
        solved = [adaptive_steps(model, graph, tolerance, self.options.paths) for tolerance in self.options.tolerances]
        return {
            "steps": float(np.mean([accepted for accepted, _, _ in solved])),
            "rejected": float(np.mean([rejected for _, rejected, _ in solved])),
            "error": 1.0 - evaluate(prediction, graph)["accuracy"],
            "entropy": float(prediction.total[graph.test_mask].mean()),
            "drift": solved[0][2],
        }


def adaptive_steps(model: Model, graph: Graph, tolerance: float, paths: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Accepted and rejected steps of each path of a fitted LGNSDE, and the root mean square of its drift at the start.

    Args:
        model: with a noise that does not depend on how it is simulated (``sigma_is="absolute"`` or a learned ratio).
        graph: to solve on.
        tolerance: relative and absolute.
        paths: how many.
    """
    subject = Subject.of_model(model, graph)
    assert isinstance(model, LGNSDE)
    module, adjacency = subject.module, subject.inputs.adjacency
    diffusion = module.diffusion.bind(adjacency)
    with torch.no_grad():
        path = integrate_adaptive(
            lambda start: module.drift.bind(adjacency, start),
            subject.initial.expand(-1, paths, -1).contiguous(),
            horizon=module.settings.horizon,
            seed=subject.stream,
            keys=diffusion.keys(subject.keys),
            paths=range(paths),
            solver="sra1" if module.diffusion.noise == "additive" else "milstein",
            diffusion=diffusion if subject.noisy else None,
            noise_kind=module.diffusion.noise,
            rtol=tolerance,
            atol=tolerance,
            shallowest=0,
        )
        start = module.drift.bind(adjacency, subject.initial)(0.0, subject.initial)
    return path.accepted.numpy(), path.rejected.numpy(), float(start.square().mean().sqrt())
