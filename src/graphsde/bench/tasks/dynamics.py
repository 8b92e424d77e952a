"""How the states of a latent SDE move: positions of nodes at three times, and the drift."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field

from graphsde.base.seeds import numpy_stream
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions
from graphsde.bench.theory.subject import Subject
from graphsde.graph.graph import Graph
from graphsde.graph.target import UNLABELLED
from graphsde.metrics.evaluation import align_labels, evaluate

MOMENTS = ("begin", "middle", "end")
SHOWN_PATHS = 10
BAND = (5.0, 95.0)


class DynamicsOptions(TaskOptions):
    """Options of :class:`Dynamics`.

    Args:
        paths: of the equation; positions and drifts are means over them.
        shown: nodes whose positions are kept.
        grid: cells across, in each of which the drift of the nodes there is averaged.
    """

    paths: int = Field(16, ge=2, le=256)
    shown: int = Field(500, ge=1, le=5000)
    grid: int = Field(12, ge=2, le=50)


class Dynamics(Task):
    """States at the start, the middle and the end in the plane of their two main directions.

    The plane is found by principal components over the three times together, so that positions can be compared. The
    drift is that of the fitted network at the states of its own paths, projected onto the plane; it is averaged over
    the nodes of each cell and not extrapolated. ``separation_…`` is the share of the states' variance (all dimensions,
    test nodes) that lies between classes.
    """

    name = "dynamics"
    summary = "positions of the nodes of a latent SDE at three times, with the drift, in two dimensions"
    Options = DynamicsOptions
    options: DynamicsOptions
    headline = ("separation_begin", "separation_middle", "separation_end", "accuracy")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = self.fit_timed(make, graph)
        subject = Subject.of_model(model, graph)
        prediction = self.predict_classes(model, graph)
        labels = align_labels(graph, prediction.class_names)
        test = graph.masks["test"] & (labels != UNLABELLED)
        order = np.argsort(prediction.total[test], kind="stable")
        node = int(np.flatnonzero(test)[order[len(order) // 2]])  # neither the easiest nor the hardest
        means, fields, paths = followed(subject, self.options.paths, node)
        plane, explained = main_plane(means.reshape(-1, means.shape[-1]))
        curves: dict[str, list[float]] = {"times": list(subject.times)}
        metrics: dict[str, float] = {"explained": explained, "accuracy": evaluate(prediction, graph)["accuracy"]}
        rows = np.sort(numpy_stream(seed, "shown nodes").permutation(np.flatnonzero(test))[: self.options.shown])
        curves["class"] = labels[rows].astype(float).tolist()
        for name, mean, field in zip(MOMENTS, means, fields, strict=True):
            position = mean @ plane
            curves |= {f"{name}_{axis}": position[rows, k].tolist() for k, axis in enumerate("xy")}
            cells = averaged(position, field @ plane, np.linalg.norm(field, axis=1), self.options.grid)
            curves |= {f"{name}_{key}": values.tolist() for key, values in cells.items()}
            metrics[f"separation_{name}"] = between_share(mean[test], labels[test])
        return Measurement(metrics | cost, curves | self._one_node(node, paths @ plane[:, 0]))

    def _one_node(self, node: int, along: np.ndarray) -> dict[str, list[float]]:
        """Paths of one node along the first direction.  # along [M, S]"""
        low, high = np.percentile(along, BAND, axis=1)
        found = {"node": [float(node)], "path_mean": along.mean(1).tolist()}
        found |= {"path_low": low.tolist(), "path_high": high.tolist()}
        return found | {f"path_{k}": along[:, k].tolist() for k in range(min(SHOWN_PATHS, along.shape[1]))}


def followed(subject: Subject, paths: int, node: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means over paths of states and drifts at the three moments, and all paths of one node.

    Returns:
        Two arrays [3, N, d] and one [M, S, d], M being the number of saved times.
    """
    moments = (0, len(subject.times) // 2, len(subject.times) - 1)
    means = np.zeros((3, subject.initial.shape[0], subject.initial.shape[2]))
    fields, own = np.zeros_like(means), []
    for group in subject.groups(paths):  # small enough to be held in memory
        states = subject.states(group)
        own.append(torch.stack([state[node] for state in states]).numpy())
        start = subject.initial.expand(-1, len(group), -1).contiguous()
        drift = subject.module.drift.bind(subject.inputs.adjacency, start)
        for place, moment in enumerate(moments):
            means[place] += states[moment].sum(1).numpy() / paths
            with torch.no_grad():
                fields[place] += drift(subject.times[moment], states[moment]).sum(1).numpy() / paths
    return means, fields, np.concatenate(own, axis=1)


def main_plane(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The two directions of largest variance and the share of it that they have.  # [n, d] -> [d, 2]"""
    _, sizes, directions = np.linalg.svd(points - points.mean(0), full_matrices=False)
    plane = directions[:2].T
    # a sign that does not depend on the library
    plane = plane * np.where(plane[np.abs(plane).argmax(0), range(plane.shape[1])] < 0, -1.0, 1.0)
    if plane.shape[1] < 2:
        plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    power = sizes**2
    return plane, float(power[:2].sum() / power.sum()) if power.sum() > 0 else 1.0


def averaged(position: np.ndarray, arrow: np.ndarray, speed: np.ndarray, cells: int) -> dict[str, np.ndarray]:
    """Means of arrows and speeds over the nodes of each cell of a grid, for cells that have any.

    Args:
        position, arrow: in the plane.  # [N, 2]
        speed: length of the whole drift.  # [N]
        cells: across.
    """
    low, high = np.percentile(position, [1, 99], axis=0)
    step = np.maximum((high - low) / cells, 1e-12)
    place = np.floor((position - low) / step).astype(int)
    inside = ((place >= 0) & (place < cells)).all(axis=1)
    flat = place[inside, 1] * cells + place[inside, 0]
    count = np.bincount(flat, minlength=cells * cells)
    used = np.flatnonzero(count)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.bincount(flat, values[inside], minlength=cells * cells)[used] / count[used]

    return {
        "cell_x": low[0] + (used % cells + 0.5) * step[0],
        "cell_y": low[1] + (used // cells + 0.5) * step[1],
        "cell_dx": mean(arrow[:, 0]),
        "cell_dy": mean(arrow[:, 1]),
        "cell_speed": mean(speed),
        "cell_size": step,
    }


def between_share(states: np.ndarray, labels: np.ndarray) -> float:
    """Variance between class means over all variance: 0 if classes coincide, 1 if each is a point.

    Example:
        >>> between_share(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]))
        1.0
    """
    centred = states - states.mean(0)
    whole = float((centred**2).sum())
    between = sum(
        int((labels == c).sum()) * float((centred[labels == c].mean(0) ** 2).sum()) for c in np.unique(labels)
    )
    return between / whole if whole > 0 else float("nan")
