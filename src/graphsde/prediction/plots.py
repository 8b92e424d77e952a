"""Pictures of a prediction by name: ``prediction.plot.risk_coverage()``. What draws them registers itself here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph

if TYPE_CHECKING:
    from graphsde.prediction.base import Prediction

Backend = Literal["matplotlib", "plotly"]
_DRAWN_BY = "graphsde.view.figures.of_prediction"  # by name, as it stands on a floor above this one
NAMES = (
    "risk_coverage",
    "reliability",
    "entropy",
    "uncertainty",
    "confusion",
    "per_class",
    "detection",
    "graph",
    "fit",
)


class Drawable(Protocol):
    """A picture with a face for each library."""

    def matplotlib(self) -> Any: ...

    def plotly(self) -> Any: ...


PLOTS: dict[str, Rules[Callable[..., Drawable]]] = {name: Rules(f"the plot '{name}'") for name in NAMES}
"""By name, one rule for each kind of target: ``rule(prediction, graph, **options) -> Picture``."""


class Plots:
    """Pictures of one prediction, as figures of matplotlib (for paper) or plotly (``backend="plotly"``).

    Each is over the test nodes of the graph that was predicted on. Give the graph where the prediction does not know
    it: after :meth:`~graphsde.prediction.Prediction.subset`, or where it was made from arrays.

    Args:
        prediction: to be shown.
        graph: that was predicted on, where it is known.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> figure = gs.LabelPropagation().fit(graph).predict(graph).plot.risk_coverage()
        >>> figure.get_size_inches().tolist()[0]
        4.6
    """

    def __init__(self, prediction: Prediction, graph: Graph | None) -> None:
        self._prediction, self._graph = prediction, graph

    def risk_coverage(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """Error among the nodes kept, surest first; of numbers, their RMSE."""
        return self._drawn("risk_coverage", graph, backend)

    def reliability(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """Stated confidence against how often it comes true; of numbers, the levels of quantiles."""
        return self._drawn("reliability", graph, backend)

    def entropy(
        self, graph: Graph | None = None, *, by: Literal["right", "ood"] = "right", backend: Backend = "matplotlib"
    ) -> Any:
        """Histogram of entropies, of right and wrong predictions, or (``by="ood"``) of known and OOD nodes."""
        return self._drawn("entropy", graph, backend, by=by)

    def uncertainty(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """Aleatoric against epistemic uncertainty, a dot per node."""
        return self._drawn("uncertainty", graph, backend)

    def confusion(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """Which class is taken for which."""
        return self._drawn("confusion", graph, backend)

    def per_class(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """Precision, recall and mean confidence of every class, with 95 % intervals."""
        return self._drawn("per_class", graph, backend)

    def detection(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """ROC, and precision against recall, of telling OOD nodes by entropy."""
        return self._drawn("detection", graph, backend)

    def graph(self, graph: Graph | None = None, *, node: Any = None, backend: Backend = "matplotlib") -> Any:
        """The graph coloured by entropy, around ``node`` (an id) or the most uncertain test node."""
        return self._drawn("graph", graph, backend, node=node)

    def fit(self, graph: Graph | None = None, *, backend: Backend = "matplotlib") -> Any:
        """Predicted against true values, with 90 % intervals."""
        return self._drawn("fit", graph, backend)

    def __repr__(self) -> str:
        return f"<plots of {self._prediction!r}: {', '.join(NAMES)}>"

    def _drawn(self, name: str, graph: Graph | None, backend: str, **options: Any) -> Any:
        if backend not in ("matplotlib", "plotly"):
            raise BadUsage(f"there is no backend '{backend}'", found=backend, expected="matplotlib or plotly")
        given = self._graph if graph is None else graph
        if not isinstance(given, Graph):
            raise BadUsage("this prediction does not know its graph", fix=f"give it: prediction.plot.{name}(graph)")
        importlib.import_module(_DRAWN_BY)
        picture = PLOTS[name].of(self._prediction)(self._prediction, given, **options)
        return picture.matplotlib() if backend == "matplotlib" else picture.plotly()
