"""Class predictions whose samples were summed up as they were drawn: memory does not depend on their number."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage, Diverged
from graphsde.prediction.classification import ClassPrediction, entropy
from graphsde.prediction.sample_summary import SampleSummary


class SamplesNotKept(BadUsage):
    """The samples of a prediction were requested, but only sums over them were kept."""

    default_code = "E-SAMPLES"


class SummarisedPrediction(ClassPrediction):
    """A :class:`ClassPrediction` without its samples; its values for every node are the same.

    ``mean``, the parts of the uncertainty, conformal sets, decisions, questions and scores are available; ``probs`` and
    ``logits``, which have every sample, raise :class:`SamplesNotKept`, and so does anything that needs them: the score
    ``energy`` at another temperature than 1, a further calibrator.

    Args:
        summary: sums over the samples.
        ids: of the items predicted.  # [N]
        class_names: one per column.
        embedding: the last hidden state, if the model has one.  # [N, h]
        temperature: what the logits were divided by; 1 if nothing was.
        uncalibrated: the prediction before a calibrator was applied, if one was.
        distance_aware: as of a :class:`ClassPrediction`.
        known_state: as of a :class:`ClassPrediction`, once for all samples.  # [1, N, C]
        remaining: entropy that is left once the state is known, mean over samples, where a calibrator says so.  # [N]
        plain: the same samples at temperature 1, where ``temperature`` is another and there is no calibrator.
        redraw: draws the samples of some nodes again; ``None`` if that is impossible, as for a file.
    """

    def __init__(
        self,
        summary: SampleSummary,
        ids: np.ndarray,
        class_names: tuple[str, ...],
        *,
        embedding: np.ndarray | None = None,
        temperature: float = 1.0,
        uncalibrated: SummarisedPrediction | None = None,
        distance_aware: bool = False,
        known_state: np.ndarray | None = None,
        remaining: np.ndarray | None = None,
        plain: SummarisedPrediction | None = None,
        redraw: Callable[[np.ndarray], ClassPrediction] | None = None,
    ) -> None:
        values = {
            "summary": summary,
            "ids": ids,
            "class_names": class_names,
            "kind": "samples",
            "embedding": embedding,
            "alpha": None,
            "temperature": temperature,
            "uncalibrated": uncalibrated,
            "distance_aware": distance_aware,
            "known_state": known_state,
            "remaining": remaining,
            "plain": plain,
            "redraw": redraw,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._require_shapes()

    if TYPE_CHECKING:
        summary: SampleSummary
        uncalibrated: SummarisedPrediction | None
        remaining: np.ndarray | None
        plain: SummarisedPrediction | None
        redraw: Callable[[np.ndarray], ClassPrediction] | None

    def _require_shapes(self) -> None:
        nodes, classes = len(self.ids), len(self.class_names)
        wide = {"mean", "votes", "logits"}
        wanted = {name: (nodes, classes) if name in wide else (nodes,) for name in self.summary.arrays()}
        found = {name: array.shape for name, array in self.summary.arrays().items()}
        if found != wanted or self.summary.count < 1:
            raise BadInput(
                f"sums of shapes {found} don't match {nodes} nodes and {classes} classes",
                code="E-LEN",
                expected=str(wanted),
            )
        if self.known_state is not None and self.known_state.shape != (1, nodes, classes):
            raise BadInput(
                f"known_state has the shape {self.known_state.shape}", code="E-LEN", expected="[1, nodes, classes]"
            )
        if not np.all(np.isfinite(self.summary.mean)):
            bad = int(np.count_nonzero(~np.isfinite(self.summary.mean).all(axis=-1)))
            raise Diverged(f"{bad} nodes have probabilities that are not finite", fix="lower the learning rate")

    @property
    def probs(self) -> np.ndarray:
        raise self._not_kept("probabilities")

    @property
    def logits(self) -> np.ndarray | None:
        if self.summary.logits is None:
            return None
        raise self._not_kept("logits")

    @property
    def has_logits(self) -> bool:
        return self.summary.logits is not None

    @property
    def num_samples(self) -> int:
        return self.summary.count

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def mean(self) -> np.ndarray:
        """Predictive probabilities: the mean over samples, in float64.  # [N, C]"""
        return self.summary.mean / self.summary.mean.sum(axis=-1, keepdims=True)

    @property
    def mean_logits(self) -> np.ndarray | None:
        return self.summary.logits

    @property
    def votes(self) -> np.ndarray:
        return self.summary.votes

    @property
    def sample_variance(self) -> np.ndarray:
        return self.summary.variance

    @property
    def pairwise_kl(self) -> np.ndarray:
        return self.summary.pairwise_kl

    def free_energy(self, temperature: float = 1.0) -> np.ndarray:
        if self.summary.log_sum_exp is None or temperature != 1.0:
            raise self._not_kept("logits")
        return -self.summary.log_sum_exp

    @cached_property
    def aleatoric(self) -> np.ndarray:
        """Entropy that remains once the sample, or the state, is known: ambiguity of the node itself.  # [N]"""
        if self.remaining is not None:
            return np.minimum(self.remaining, self.total)
        if self.known_state is not None:
            return np.minimum(entropy(self.known_state[0]), self.total)
        return self.summary.entropy

    def untempered(self) -> SummarisedPrediction:
        """The prediction before calibration."""
        if self.uncalibrated is not None:
            return self.uncalibrated.untempered()
        return self if self.plain is None else self.plain

    def subset(self, items: np.ndarray) -> SummarisedPrediction:
        """The prediction of some items (positions or a boolean mask)."""
        rows = np.flatnonzero(items) if np.asarray(items).dtype == bool else np.asarray(items)
        redraw = self.redraw
        return self._changed(
            summary=self.summary.take(rows),
            ids=self.ids[rows],
            embedding=None if self.embedding is None else self.embedding[rows],
            uncalibrated=None if self.uncalibrated is None else self.uncalibrated.subset(rows),
            known_state=None if self.known_state is None else self.known_state[:, rows],
            remaining=None if self.remaining is None else self.remaining[rows],
            plain=None if self.plain is None else self.plain.subset(rows),
            redraw=None if redraw is None else lambda some: redraw(rows[some]),
        )

    def with_samples(self, items: np.ndarray) -> ClassPrediction:
        """The prediction of some items (positions) with its samples, drawn again by the model: the same ones.

        Raises:
            SamplesNotKept: they can't be drawn again: the prediction is from a file, or was calibrated.
        """
        if self.redraw is None:
            raise self._not_kept("probabilities")
        return self.redraw(items)

    def _changed(self, **values: Any) -> SummarisedPrediction:
        names = ("summary", "ids", "class_names", "embedding", "temperature", "uncalibrated", "distance_aware")
        own = {name: getattr(self, name) for name in (*names, "known_state", "remaining", "plain", "redraw")}
        return SummarisedPrediction(**{**own, **values})

    def _not_kept(self, what: str) -> SamplesNotKept:
        return SamplesNotKept(
            f"the {what} of {self.num_samples:,} samples of {self.num_items:,} nodes were not kept",
            expected="summaries of each node: mean, total, aleatoric, epistemic, scores at temperature 1",
            fix="predict with fewer samples or keep_samples=True; prediction.with_samples(positions) has some nodes'",
        )
