"""How good a prediction and its uncertainty are: reliability, risk and coverage, entropies, detection."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.metrics import reliability, risk_coverage
from graphsde.metrics.arrays import auroc, average_precision, tied_blocks
from graphsde.metrics.detection import fpr95
from graphsde.metrics.evaluation import count_entropies, entropy_edges
from graphsde.metrics.per_class import ClassFigures, confusion_matrix, per_class
from graphsde.view.figures.chart import Axis, Bars, Chart, Dots, Line, Mark, Panel, Symbol, Tiles, Words
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, GREY, ORANGE, RIGHT, VERMILLION, WRONG, look, thin

MOST_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Detection:
    """One score's curves; a node is accepted as in-distribution if its uncertainty is at most the threshold.

    Args:
        accepted_familiar, accepted_ood: shares accepted as the threshold rises, from 0 to 1.  # [B + 1] each
        recall, precision: of finding OOD nodes by high uncertainty, tied nodes together.  # [B] each
        auroc, aupr, fpr95: the areas, and the share of OOD nodes accepted along with 95 % of the in-distribution ones.
        chance: precision of a random choice.
    """

    accepted_familiar: np.ndarray
    accepted_ood: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    auroc: float
    aupr: float
    fpr95: float
    chance: float

    @classmethod
    def of(cls, inside: np.ndarray, outside: np.ndarray) -> Detection:
        """From uncertainties of in-distribution [n] and OOD [m] nodes, neither of them empty."""
        values = np.concatenate([inside, outside])
        ood = np.repeat([False, True], [len(inside), len(outside)])
        _, size, hits = tied_blocks(values, ood)
        found, chosen = np.cumsum(hits[::-1]), np.cumsum(size[::-1])
        return cls(
            np.concatenate([[0.0], np.cumsum(size - hits) / len(inside)]),
            np.concatenate([[0.0], np.cumsum(hits) / len(outside)]),
            found / len(outside),
            found / chosen,
            auroc(values, ood),
            average_precision(values, ood),
            fpr95(inside, outside),
            len(outside) / len(values),
        )


@dataclass(frozen=True, eq=False)
class DetectionCurves(Picture):
    """ROC on the left, precision against recall on the right; a curve for every score or system."""

    systems: dict[str, Detection]

    @classmethod
    def of(cls, systems: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> DetectionCurves:
        """From uncertainties of in-distribution and OOD nodes, by name."""
        return cls({name: Detection.of(inside, outside) for name, (inside, outside) in systems.items()})

    def chart(self) -> Chart:
        roc: list[Mark] = [Line("chance", [0.0, 100.0], [0.0, 100.0], GREY, "dot", 1.5, hover=None)]
        recall: list[Mark] = []
        for place, (name, found) in enumerate(self.systems.items()):
            how = look(place)
            label = f"{name}: AUROC {found.auroc:.3f}, AUPR {found.aupr:.3f}, FPR95 {found.fpr95:.1%}"
            at = thin(len(found.accepted_ood))
            accepted = 100 * found.accepted_ood[at], 100 * found.accepted_familiar[at]
            told = "%{x:.1f} % of OOD, %{y:.1f} % of in-distribution nodes accepted"
            roc.append(Line(label, *accepted, how.colour, how.dash, hover=told))
            roc.append(
                Dots(label, [100 * found.fpr95], [95.0], how.colour, "diamond", size=9.0, opacity=1.0, legend=False)
            )
            at = thin(len(found.recall))
            recall.append(Line(label, 100 * found.recall[at], 100 * found.precision[at], how.colour, how.dash))
        base = 100 * next(iter(self.systems.values())).chance
        recall.append(Line("chance", [0.0, 100.0], [base, base], GREY, "dot", 1.5, hover=None))
        whole = functools.partial(Axis, unit=" %", limits=(0.0, 102.0))
        panels = (
            Panel(
                whole("OOD nodes accepted"),
                whole("in-distribution nodes accepted"),
                tuple(roc),
                "ROC, ◆ at 95 % accepted",
            ),
            Panel(
                whole("OOD nodes found (recall)"), whole("OOD among the found"), tuple(recall), "precision and recall"
            ),
        )
        return Chart(panels, across=2, size=(3.6, 3.2))


LABEL = "predictive entropy (nats)"


@dataclass(frozen=True, eq=False)
class EntropyHistogram(Picture):
    """Counts per bin of one group of nodes or of two.

    Args:
        edges: of the bins, from 0 to ln C.  # [B + 1]
        counts: by name of the group, the one that should be certain first.  # [B] each
    """

    edges: np.ndarray
    counts: dict[str, np.ndarray]

    @classmethod
    def of(cls, total: np.ndarray, right: np.ndarray | None, num_classes: int) -> EntropyHistogram:
        """From entropies, and whether each prediction is right; ``None`` if unknown."""
        edges = entropy_edges(num_classes)
        groups = {"all": total} if right is None else {"right": total[right], "wrong": total[~right]}
        return cls(edges, {name: count_entropies(values, edges) for name, values in groups.items()})

    def bars(self, *, numbered: bool = True) -> tuple[Bars, ...]:
        """Each group scaled to its own size, the second hatched; ``numbered`` names say how many nodes there are."""
        centres, width = (self.edges[:-1] + self.edges[1:]) / 2, float(self.edges[1] - self.edges[0])
        hover = "entropy %{x:.2f}: %{customdata} nodes (%{y:.1f} %)"
        return tuple(
            Bars(
                f"{name} (n = {int(counts.sum()):,})" if numbered else name, centres,
                100.0 * counts / max(counts.sum(), 1), width, colour, pattern, opacity=0.65,
                details=counts.astype(int).tolist(), hover=hover, legend=len(self.counts) > 1,
            )
            for (name, counts), colour, pattern in zip(self.counts.items(), (RIGHT, WRONG), ("", "/"), strict=False)
        )  # fmt: skip

    def chart(self) -> Chart:
        x = Axis(LABEL, limits=(float(self.edges[0]), float(self.edges[-1])), grid=False)
        y = Axis("share of its group", unit=" %", zero=True)
        return Chart((Panel(x, y, self.bars()),))


BINS = 15
WIDTH = 100.0 / BINS


@dataclass(frozen=True, eq=False)
class ReliabilityDiagram(Picture):
    """Accuracy against confidence in 15 bins of equal width, with the number of nodes of each bin below.

    Args:
        centre: of the bins that have nodes.  # [b]
        accuracy, confidence: of their nodes.  # [b] each
        count: of their nodes.  # [b]
    """

    centre: np.ndarray
    accuracy: np.ndarray
    confidence: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, probs: np.ndarray, labels: np.ndarray) -> ReliabilityDiagram:
        """From mean probabilities [n, C] and true columns [n]."""
        curve = reliability(probs, labels, bins=BINS)
        # a bar is placed at its interval, open on the left; empty bins are not in the curve
        edges = np.linspace(0.0, 1.0, BINS + 1)
        slot = np.clip(np.searchsorted(edges, curve.upper, side="left") - 1, 0, BINS - 1)
        return cls((slot + 0.5) / BINS, curve.accuracy, curve.confidence, curve.count.astype(int))

    def chart(self) -> Chart:
        x, counts = 100 * self.centre, self.count.tolist()
        details = [[round(100 * float(c), 3), n] for c, n in zip(self.confidence, counts, strict=True)]
        told = "confidence %{customdata[0]:.1f} %, right %{y:.1f} %, n = %{customdata[1]}"
        right = 100 * self.accuracy
        bars = Bars("how often it is right", x, right, 0.94 * WIDTH, BLUE, details=details, hover=told)
        honest = Line("calibrated", [0.0, 100.0], [0.0, 100.0], ORANGE, "dash", 2.5, hover=None)
        labels = [f"{c:,}" for c in counts]
        below = Bars(
            "nodes in the bin", x, self.count, 0.94 * WIDTH, GREY, opacity=1.0, labels=labels, legend=False,
            hover="n = %{y}",
        )  # fmt: skip
        confidence = Axis("stated confidence", " %", limits=(0.0, 100.0), grid=False)
        panels = (
            Panel(confidence, Axis("right", " %", limits=(0.0, 100.0)), (bars, honest)),
            Panel(confidence, Axis("nodes", zero=True), (below,)),
        )
        return Chart(panels, size=(4.6, 2.2), page_height=240, heights=(2.4, 1.0), shared_x=True)


HOVER = "keeping %{x:.1f} %: %{y:.2f} % wrong"
KEPT = Axis("nodes kept, most certain first", " %", limits=(0.0, 100.0), grid=False)
WRONG_AMONG = Axis("wrong among them", " %", zero=True)


def thin_kept(length: int, noisy: int) -> np.ndarray:
    """Points drawn of a curve over nodes kept; its first ``1 / noisy`` is only noise and would distort the scale."""
    start = length // noisy
    return start + thin(length - start)


@dataclass(frozen=True, eq=False)
class RiskCoverageCurves(Picture):
    """Error rate among the nodes kept against the share kept, between an oracle and a random order.

    Args:
        coverage: 1/n, 2/n, …, 1.  # [n]
        risk: by name of the system.  # [n] each
        oracle: of an order that knows all errors; one per system if their errors differ.  # [n] each
        error: the error rate, which is that of a random order.
    """

    coverage: np.ndarray
    risk: dict[str, np.ndarray]
    oracle: dict[str, np.ndarray]
    error: dict[str, float]

    @classmethod
    def of(cls, systems: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> RiskCoverageCurves:
        """From uncertainty (higher = more uncertain) and errors of every system on the same nodes."""
        curves = {name: risk_coverage(uncertainty, errors) for name, (uncertainty, errors) in systems.items()}
        best = {name: risk_coverage(e.astype(np.float64), e).risk for name, (_, e) in systems.items()}
        share = {name: float(errors.mean()) for name, (_, errors) in systems.items()}
        coverage = next(iter(curves.values())).coverage
        return cls(coverage, {name: curve.risk for name, curve in curves.items()}, best, share)

    def chart(self) -> Chart:
        rows = thin_kept(len(self.coverage), 100)
        x = 100 * self.coverage[rows]
        marks: list[Line] = []
        single = len(self.risk) == 1
        for place, (name, risk) in enumerate(self.risk.items()):
            how = look(place)
            colour, best, chance = (BLUE, GREEN, GREY) if single else (how.colour,) * 3
            random = np.full(len(rows), self.error[name])
            thin_line = 2.0 if single else 1.2
            line = Line(name, x, 100 * risk[rows], colour, width=2.5, dots=not single, symbol=how.symbol, hover=HOVER)
            marks.append(line)
            marks.append(Line("oracle", x, 100 * self.oracle[name][rows], best, "dash", thin_line, hover=HOVER))
            marks.append(Line("random order", x, 100 * random, chance, "dot", thin_line, hover=HOVER))
        return Chart((Panel(KEPT, WRONG_AMONG, tuple(marks)),))


MAX_DOTS = 2000


def chosen_dots(length: int, limit: int = MAX_DOTS) -> np.ndarray:
    """Positions of the nodes drawn: all of them, or always the same ``limit`` of them."""
    if length <= limit:
        return np.arange(length)
    return np.sort(np.random.default_rng(0).choice(length, size=limit, replace=False))


def node_dots(
    name: str, x: np.ndarray, y: np.ndarray, ids: np.ndarray, rows: np.ndarray, colour: str, symbol: Symbol, **more: Any
) -> Dots:
    """A translucent dot for every node at ``rows``, with its id."""
    return Dots(name, x[rows], y[rows], colour, symbol, opacity=0.55, texts=[str(node) for node in ids[rows]], **more)


@dataclass(frozen=True, eq=False)
class UncertaintyScatter(Picture):
    """Aleatoric against epistemic uncertainty, one dot per node, at most 2,000 of them.

    Args:
        aleatoric, epistemic: in nats.  # [n]
        right: whether the prediction is right, ``None`` if unknown.  # [n] bool
        node_ids: of the nodes.  # [n]
    """

    aleatoric: np.ndarray
    epistemic: np.ndarray
    right: np.ndarray | None
    node_ids: np.ndarray

    def chart(self) -> Chart:
        rows = chosen_dots(len(self.aleatoric))
        groups: list[tuple[str, str, Symbol, np.ndarray]] = [("nodes", RIGHT, "circle", rows)]
        if self.right is not None:
            right = self.right[rows]
            groups = [("right", RIGHT, "circle", rows[right]), ("wrong", WRONG, "x", rows[~right])]
        dots = tuple(
            node_dots(
                f"{name} (n = {len(members):,})", self.aleatoric, self.epistemic, self.node_ids, members, colour,
                symbol, legend=self.right is not None, hover="node %{text}<br>aleatoric %{x:.3f}, epistemic %{y:.3f}",
            )
            for name, colour, symbol, members in groups
        )  # fmt: skip
        x = Axis("aleatoric (nats): the node itself is ambiguous", zero=True)
        y = Axis("epistemic (nats): the samples disagree", zero=True)
        return Chart((Panel(x, y, dots),), page_height=420, size=(4.6, 3.6))


@dataclass(frozen=True, eq=False)
class Confusion(Picture):
    """Nodes by true class (rows) and predicted class (columns), each cell tinted by its share of the row.

    Args:
        counts: of nodes.  # [C, C]
        names: of the classes.
    """

    counts: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, predicted: np.ndarray, truth: np.ndarray, names: tuple[str, ...]) -> Confusion:
        """From positions; of many classes those that are mistaken most."""
        whole = confusion_matrix(predicted, truth, len(names))
        both = whole + whole.T
        mistaken = both.sum(axis=1) - np.diag(both)
        kept = np.sort(np.argsort(-mistaken, kind="stable")[:MOST_CLASSES])
        return cls(whole[np.ix_(kept, kept)], tuple(names[one] for one in kept))

    def chart(self) -> Chart:
        counts, places = self.counts, np.arange(len(self.names), dtype=np.float64)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        right, said = np.eye(len(counts), dtype=bool), counts > 0
        tiles = tuple(
            Tiles(
                name, places, places, np.where(said & cells, shares, np.nan), ((colour, 0.08), (colour, 0.55)), (0, 1)
            )
            for name, cells, colour in (("right, share of the class", right, RIGHT), ("wrong", ~right, WRONG))
        )
        words = tuple(
            Words(float(column), float(row), f"{counts[row, column]:,}") for row, column in np.argwhere(counts).tolist()
        )
        ends = (-0.5, len(self.names) - 0.5)
        x = Axis("predicted", names=self.names, limits=ends, grid=False, slanted=max(map(len, self.names)) > 3)
        y = Axis("true", names=self.names, limits=ends[::-1], grid=False)
        side = max(3.0, 0.42 * len(self.names) + 1.0)
        return Chart((Panel(x, y, (*tiles, *words)),), size=(side + 0.6, side), page_height=460, legend=False)


@dataclass(frozen=True, eq=False)
class PerClass(Picture):
    """Precision, recall and mean confidence of every class, the rarest first.

    Args:
        rows: of the classes.
    """

    rows: tuple[ClassFigures, ...]

    @classmethod
    def of(cls, predicted: np.ndarray, truth: np.ndarray, confidence: np.ndarray, names: tuple[str, ...]) -> PerClass:
        """From positions and confidences of judged nodes; of many classes those with the lowest F1."""
        rows = [one for one in per_class(predicted, truth, confidence, names) if one.support]
        rows.sort(key=lambda one: 0.0 if one.f1 is None else one.f1.value)
        return cls(tuple(sorted(rows[:MOST_CLASSES], key=lambda one: one.support)))

    def chart(self) -> Chart:
        marks = []
        series: tuple[tuple[str, str, Symbol, float], ...] = (
            ("recall", BLUE, "circle", 0.22),
            ("precision", VERMILLION, "square", 0.0),
            ("mean confidence", GREEN, "diamond", -0.22),
        )
        for name, colour, symbol, up in series:
            values, low, high, y = [], [], [], []
            for place, row in enumerate(self.rows):
                figure = getattr(row, "confidence" if name == "mean confidence" else name)
                if figure is None:
                    continue
                ends = (figure,) * 3 if isinstance(figure, float) else (figure.value, figure.low, figure.high)
                values.append(100 * ends[0])
                low.append(100 * ends[1])
                high.append(100 * ends[2])
                y.append(place + up)
            told = f"{name} %{{x:.1f}} %"
            marks.append(Dots(name, values, y, colour, symbol, x_low=low, x_high=high, opacity=1.0, hover=told))
        names = tuple(f"{one.name} (n = {one.support:,})" for one in self.rows)
        y_axis = Axis("", names=names, limits=(-0.6, len(names) - 0.4), grid=False)
        height = max(2.4, 0.36 * len(names) + 0.9)
        panel = Panel(Axis("share of nodes", " %"), y_axis, tuple(marks))
        return Chart((panel,), size=(5.0, height), page_height=max(260, 40 * len(names) + 90))
