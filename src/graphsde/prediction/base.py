"""The interface between models and everything after them, for any kind of target."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np

from graphsde.base.errors import BadUsage, NotEnoughMemory
from graphsde.base.html import card, counted, table
from graphsde.base.memory import available_bytes, memory_limit, require_memory
from graphsde.graph.graph import Graph
from graphsde.prediction.learned_from import LearnedFrom

if TYPE_CHECKING:
    import pandas as pd

    from graphsde.prediction.classification import ClassPrediction
    from graphsde.prediction.plots import Plots
    from graphsde.prediction.regression import RegressionPrediction

Kind = Literal["deterministic", "samples", "dirichlet", "gaussian"]
"""What the spread of a prediction is: none, draws from a posterior, Dirichlet concentrations, one Gaussian."""
P = TypeVar("P", bound="Prediction")
SMALL_DRAWS = 10_000_000
BYTES_PER_DRAW = 24  # per output of a node: a logit, its probability, and both in double precision while computing
KEPT_VARIABLE = "GRAPHSDE_SAMPLE_MEMORY"
MOST_KEPT = 2048
"""MiB of samples that a class prediction keeps; of more samples it only keeps sums."""
DRAWS_OF_SUMS = 8  # memory of the sums while computing, in samples
MOST_SUMMED = 1_000_000
SHOWN_NODES = 5
"""The most uncertain ones, in a notebook."""


def require_room_for_sums(samples: int, nodes: int, outputs: int) -> None:
    """Like :func:`require_room_for_samples`, if only sums over samples are kept: memory does not depend on their
    number, but an absurdly large number is still refused."""
    if samples > MOST_SUMMED:
        raise NotEnoughMemory(
            f"{samples:,} samples are too many",
            expected=f"at most {MOST_SUMMED:,} samples",
            fix=f"use at most {MOST_SUMMED:,} samples: more would not improve the mean",
        )
    require_room_for_samples(min(samples, DRAWS_OF_SUMS), nodes, outputs)


def keeps_samples(samples: int, nodes: int, outputs: int) -> bool:
    """Whether a prediction keeps this many samples: up to :data:`MOST_KEPT` MiB, or ``GRAPHSDE_SAMPLE_MEMORY``.

    They may use an eighth of a memory limit.

    Args:
        samples, nodes, outputs: as for :func:`require_room_for_samples`.
    """
    given = os.environ.get(KEPT_VARIABLE)
    limit = memory_limit()
    usual = MOST_KEPT if limit is None else min(MOST_KEPT, limit / 2**20 / 8)
    try:
        most = usual if given is None else float(given)
    except ValueError:
        raise BadUsage(f"{KEPT_VARIABLE} is {given!r}", expected="a number of MiB") from None
    return samples * nodes * outputs * BYTES_PER_DRAW <= most * 2**20


def memory_of_samples(samples: int, nodes: int, outputs: int) -> int:
    """Bytes that the draws of all nodes need while predicting."""
    return BYTES_PER_DRAW * samples * max(nodes, 1) * max(outputs, 1)


def require_room_for_samples(samples: int, nodes: int, outputs: int) -> None:
    """Refuse more samples than fit into memory, before any is drawn.

    Args:
        samples: how many draws.
        nodes: how many nodes each has.
        outputs: numbers per node: one per class, or mean and variance.

    Raises:
        NotEnoughMemory: with the number of samples that would fit.
    """
    each = memory_of_samples(1, nodes, outputs)
    if samples * each > SMALL_DRAWS:  # checking memory takes longer than a small prediction
        most = available_bytes() // each
        fix = f"use at most {most:,} samples" if most else "use a machine with more memory, or a smaller graph"
        require_memory(samples * each, f"{samples:,} samples of {nodes:,} nodes", fix)


@dataclass(frozen=True)
class Perturb:
    """A request for the prediction at features moved a small step towards the model's own answer (ODIN).

    ``x' = x − size · scale · sign(∇_x Σ_i CE(z_i(x)/T, argmax z_i))``, all nodes at once, where ``scale`` is the
    standard deviation of the features as the model sees them.

    Args:
        size: of the step, in standard deviations.
        temperature: T.
    """

    size: float
    temperature: float = 1.0


class Prediction(ABC):
    """A model's prediction for every item of a graph, with its uncertainty. Items are currently nodes.

    Scores, conformal sets, decisions and figures are pure functions of this and of the graph; none uses the model.
    There is one subclass for each kind of target; :func:`require` checks for features that only some have.
    """

    target_kind: ClassVar[str]
    speaks_of: ClassVar[str]
    """What is predicted, in the words of messages."""
    ids: np.ndarray
    """Of the items predicted, in the graph's own naming.  # [N]"""
    kind: Kind
    embedding: np.ndarray | None
    """The last hidden state where the model has one.  # [N, h]"""
    _predicted_on: Graph | None = None
    learned_from: LearnedFrom | None = None
    """The nodes that the model's fit used, where that is known."""

    @property
    @abstractmethod
    def num_samples(self) -> int: ...

    @property
    def num_items(self) -> int:
        return len(self.ids)

    @property
    @abstractmethod
    def mean(self) -> np.ndarray:
        """Of the predictive distribution.  # [N, …]"""

    @property
    @abstractmethod
    def total(self) -> np.ndarray:
        """Uncertainty as a whole.  # [N]"""

    @property
    @abstractmethod
    def aleatoric(self) -> np.ndarray:
        """Uncertainty that remains once the sample is known.  # [N]"""

    @property
    @abstractmethod
    def epistemic(self) -> np.ndarray:
        """Disagreement among the samples; NaN for a deterministic model.  # [N]"""

    @abstractmethod
    def untempered(self) -> Self:
        """The prediction before calibration."""

    def for_detection(self) -> Self:
        """The prediction that detects OOD nodes best; by default the one before calibration."""
        return self.untempered()

    @abstractmethod
    def subset(self, items: np.ndarray) -> Self:
        """The prediction of some items (positions or a boolean mask)."""

    @property
    def plot(self) -> Plots:
        """Pictures of this prediction on test nodes: ``prediction.plot.risk_coverage()`` and others."""
        from graphsde.prediction.plots import Plots

        return Plots(self, self._predicted_on)

    def known_to_be_of(self, graph: Graph | None, learned_from: LearnedFrom | None = None) -> Self:
        """This prediction, which from now on knows the graph that it is of, and what its model was fitted on."""
        object.__setattr__(self, "_predicted_on", graph)
        object.__setattr__(self, "learned_from", learned_from)
        return self

    def of_the_graph_of(self, other: Prediction) -> Self:
        """This prediction, which from now on knows what ``other`` knows of graph and fit."""
        return self.known_to_be_of(other._predicted_on, other.learned_from)

    @property
    def spread(self) -> str:
        """What its uncertainty comes from, in words."""
        if self.kind == "gaussian":
            return "one Gaussian per node, in closed form"
        if self.kind == "samples":
            return "mean of " + counted(self.num_samples, "sample")
        return "evidential (Dirichlet)" if self.kind == "dirichlet" else "deterministic"

    def _facts(self) -> dict[str, object]:
        """What a notebook shows next to the number of nodes."""
        return {}

    def _rows(self, items: np.ndarray) -> list[dict[str, object]]:
        """Some items (positions) as rows of a table."""
        return [{"uncertainty": float(self.total[row])} for row in items]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(self.num_items, 'node')}, {self.spread})"

    def _repr_html_(self) -> str:
        facts = {"nodes": self.num_items, **self._facts(), "uncertainty": self.spread}
        most = np.argsort(-self.total, kind="stable")[:SHOWN_NODES]
        rows = [
            {"most uncertain": str(self.ids[row]), **shown} for row, shown in zip(most, self._rows(most), strict=True)
        ]
        return card(type(self).__name__, facts, table(rows))

    @staticmethod
    def from_probabilities(
        probs: Any,
        graph: Graph | None = None,
        *,
        ids: Any = None,
        class_names: Sequence[Any] | None = None,
        embedding: Any = None,
    ) -> ClassPrediction:
        """A prediction from class probabilities of any model.

        Scores, conformal sets, :func:`graphsde.decide` and :func:`graphsde.ask` then work as for any model.

        Args:
            probs: of one model, or of several draws (an ensemble, MC dropout): array, tensor or data frame, whose
                columns then name the classes. Rows sum to 1.  # [N, C] or [S, N, C]
            graph: whose nodes were predicted, all of them and in its order. Columns are its classes in the order of
                ``graph.class_names`` unless ``class_names`` says otherwise.
            ids: of the nodes, without a graph; numbered from 0 if left out.  # [N]
            class_names: one per column, such as ``classifier.classes_`` of scikit-learn.
            embedding: the last hidden state, for scores that measure distances.  # [N, h]

        Raises:
            BadInput: shapes don't fit, a value is not finite, or rows don't sum to 1.

        Example:
            >>> p = Prediction.from_probabilities([[0.9, 0.1], [0.2, 0.8]], class_names=["cat", "dog"])
            >>> p.label.tolist(), p.kind
            (['cat', 'dog'], 'deterministic')
        """
        from graphsde.prediction.outputs import from_probabilities

        return from_probabilities(probs, graph, ids=ids, class_names=class_names, embedding=embedding)

    @staticmethod
    def from_logits(
        logits: Any,
        graph: Graph | None = None,
        *,
        ids: Any = None,
        class_names: Sequence[Any] | None = None,
        embedding: Any = None,
    ) -> ClassPrediction:
        """A prediction from logits or log-probabilities; otherwise like :meth:`from_probabilities`.

        Prefer it if you have logits: energy scores, and so the score ``ood``, need them.

        Args:
            logits: array, tensor or data frame.  # [N, C] or [S, N, C]
            graph, ids, class_names, embedding: as for :meth:`from_probabilities`.

        Example:
            >>> Prediction.from_logits([[2.0, 0.0]], ids=["ann"]).confidence.round(2).tolist()
            [0.88]
        """
        from graphsde.prediction.outputs import from_logits

        return from_logits(logits, graph, ids=ids, class_names=class_names, embedding=embedding)

    @staticmethod
    def from_mean_std(
        mean: Any, std: Any, graph: Graph | None = None, *, ids: Any = None, embedding: Any = None
    ) -> RegressionPrediction:
        """A regression prediction from means and standard deviations of any model.

        Args:
            mean: in the unit of the target.  # [N], or [S, N] of several draws
            std: standard deviation of the noise around each mean.  # as mean
            graph, ids, embedding: as for :meth:`from_probabilities`.

        Example:
            >>> Prediction.from_mean_std([1.0, 2.0], [0.5, 0.5]).total.tolist()
            [0.25, 0.25]
        """
        from graphsde.prediction.outputs import from_mean_std

        return from_mean_std(mean, std, graph, ids=ids, embedding=embedding)

    def to_pandas(self, graph: Graph | None = None) -> pd.DataFrame:
        """One row per item, with the columns of ``predictions.csv``.

        These are ``id``, the answer, its confidence, the parts of the uncertainty, and the probabilities of classes.

        Args:
            graph: that was predicted on; adds known labels and roles.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from graphsde.io.pandas_frames import require_pandas
        from graphsde.prediction.columns import prediction_columns

        return require_pandas().DataFrame(prediction_columns(self, graph))


class Predictor(Protocol):
    """What a score may use of a model: further predictions on a :class:`~graphsde.graph.graph.Graph`, nothing else."""

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction: ...


def require_prediction_of(prediction: Any, graph: Any) -> None:
    """Refuse a model instead of its prediction, a graph of another library, and swapped arguments."""
    if isinstance(prediction, Graph) and isinstance(graph, Prediction):
        raise BadUsage("prediction and graph are swapped", expected="first the prediction, then the graph")
    if not isinstance(prediction, Prediction):
        raise BadUsage(
            f"a {type(prediction).__name__} is not a prediction",
            found=type(prediction).__name__,
            expected="what predict returns",
            fix="pass model.predict(graph)"
            if hasattr(prediction, "predict")
            else "make one with gs.Prediction.from_probabilities or from_logits",
        )
    if not isinstance(graph, Graph):
        raise BadUsage(
            f"a {type(graph).__name__} is not a graphsde Graph",
            found=type(graph).__name__,
            expected="the Graph that was predicted on, with its roles",
            fix="convert it once, graph = gs.as_graph(data), and use that to fit, predict and evaluate",
        )


def require(prediction: Prediction, kind: type[P], what: str) -> P:
    """``prediction`` if it is of the given kind; otherwise an error.

    Args:
        prediction: of any kind.
        kind: the kind that is needed.
        what: what needs it, to start the message with.
    """
    if isinstance(prediction, kind):
        return prediction
    raise BadUsage(
        f"{what} needs {kind.speaks_of}, and this model predicts {prediction.speaks_of}",
        code="E-TARGET",
        found=prediction.target_kind,
        expected=kind.target_kind,
    )
