"""Class predictions whose samples are summed up as they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import Diverged
from graphsde.graph.graph import Graph
from graphsde.models.answers import ANSWERS
from graphsde.models.neural import Inputs, NeuralModel, Response
from graphsde.prediction import ClassPrediction, SummarisedPrediction, require
from graphsde.prediction.classification import entropy, softmax
from graphsde.prediction.sample_summary import ROWS_AT_ONCE, SampleSums
from graphsde.uncertainty.calibration.base import Calibrator, centred
from graphsde.uncertainty.known_state import known_state_of


@dataclass(frozen=True)
class _Question:
    """What is drawn."""

    model: NeuralModel
    inputs: Inputs
    graph: Graph
    samples: int
    seed: int

    def logits(self) -> Iterator[Tensor]:
        """Sample by sample, in their order.  # [N, C] each"""
        for draw in self.model.draws(self.inputs, self.graph, self.samples, self.seed):
            yield from draw.logits

    def at(self, rows: np.ndarray, variance: Tensor | None) -> ClassPrediction:
        """The samples of some nodes, before any calibrator."""
        with torch.no_grad():
            chosen = torch.from_numpy(np.ascontiguousarray(rows))
            logits = torch.stack([sample[chosen] for sample in self.logits()])
        response = Response(logits, None, None, None if variance is None else variance[chosen])
        answer = ANSWERS.of(self.model)(self.model, response, self.graph.node_ids[rows])
        return require(answer, ClassPrediction, "samples of some nodes")


def summarised_answer(
    model: NeuralModel, inputs: Inputs, graph: Graph, samples: int, seed: int, *, parts: bool
) -> SummarisedPrediction:
    """The prediction of ``model`` for all nodes, with sums over its samples instead of the samples.

    Args:
        model: fitted, of kind ``samples`` and for classes.
        inputs: the graph as its module sees it.
        graph: to predict on.
        samples, seed: how many, and which.
        parts: whether to compute the variance of the state.
    """
    question = _Question(model, inputs, graph, samples, seed)
    with torch.no_grad():
        variance = model.state_variance(inputs) if parts else None
        variance = None if variance is None else variance.cpu()
        # a calibrator that uses neighbours may need the mean over samples, which is known after them
        calibrator = model.calibrator
        listens = calibrator is not None and calibrator.listens
        calibrated = (
            None
            if calibrator is None
            else _Calibrated(calibrator, graph, model.temperature_of_logits(), splits=variance is None)
        )
        own = _own(question, variance, calibrated)
        if calibrated is None:
            return own
        if listens:
            calibrated.go_by_mean()
            for logits in question.logits():
                calibrated.add(logits)
        return calibrated.finished(own)


def _own(question: _Question, variance: Tensor | None, calibrated: _Calibrated | None) -> SummarisedPrediction:
    """Before calibration; the calibrator gets every sample on the way."""
    model, nodes, classes = question.model, question.graph.num_nodes, len(question.model._require_fitted())
    temperature = model.temperature_of_logits()
    sums = SampleSums(nodes, classes, logits=True)
    plain = None if temperature == 1.0 else SampleSums(nodes, classes, logits=False)
    hidden: Tensor | None = None
    for draw in model.draws(question.inputs, question.graph, question.samples, question.seed):
        if not bool(torch.isfinite(draw.logits).all()):
            raise Diverged("the model's output is not finite", fix="lower lr, or scale the features")
        for logits in draw.logits:
            for rows in _blocks(nodes):
                some = logits[rows].contiguous()
                sums.add_rows(rows, _probabilities(some, temperature), some.numpy())
                if plain is not None:
                    plain.add_rows(rows, softmax(some.numpy()))
            sums.next()
            if plain is not None:
                plain.next()
            if calibrated is not None:
                (calibrated.watch if calibrated.calibrator.listens else calibrated.add)(logits)
        if draw.hidden is not None:
            hidden = draw.hidden if hidden is None else hidden.add_(draw.hidden)
    summary = sums.finished()
    known = None if variance is None else known_state_of(summary, variance.numpy()).astype(np.float32)
    embedding = None if hidden is None else (hidden / summary.count).float().numpy()
    ids, names = question.graph.node_ids, model._require_fitted()
    untempered = None
    if plain is not None:
        sharper = None
        if known is not None:
            logs = np.log(np.maximum(np.asarray(known, dtype=np.float64), np.finfo(np.float64).tiny))
            sharper = softmax(temperature * logs).astype(known.dtype)
        shared = replace(plain.finished(), logits=summary.logits, log_sum_exp=summary.log_sum_exp)
        untempered = SummarisedPrediction(shared, ids, names, embedding=embedding, known_state=sharper)
    return SummarisedPrediction(
        summary,
        ids,
        names,
        embedding=embedding,
        temperature=temperature,
        known_state=known,
        plain=untempered,
        redraw=lambda rows: question.at(rows, variance),
    )


class _Calibrated:
    """Sums over calibrated samples; ``splits`` if only the calibrator says what is not known about the state."""

    def __init__(self, calibrator: Calibrator, graph: Graph, temperature: float, *, splits: bool) -> None:
        self.calibrator, self.temperature, self.splits = calibrator, temperature, splits
        self.surroundings = calibrator.surroundings(graph)
        self.sums = SampleSums(graph.num_nodes, calibrator.classes, logits=False)
        self.remaining: np.ndarray | None = None
        self.watched: Tensor | None = None
        self.count = 0
        self.mapped: Callable[[Tensor], Tensor] = lambda logits: calibrator(logits, self.surroundings)

    def watch(self, logits: Tensor) -> None:
        """A first pass over the samples, to compute their mean.  # [N, C]"""
        own = self._centred(logits)
        self.watched = own if self.watched is None else self.watched.add_(own)
        self.count += 1

    def go_by_mean(self) -> None:
        """Use the map of the mean for every sample, as for all samples at once."""
        assert self.watched is not None
        self.mapped = self.calibrator.bound(self.watched / self.count, self.surroundings)
        self.watched = None

    def add(self, logits: Tensor) -> None:
        """The next sample, of all nodes.  # [N, C]"""
        own = self._centred(logits)
        probs = torch.softmax(self.mapped(own), -1)[0].float().numpy()
        self.sums.add(probs)
        known = self.calibrator.known_state(own, self.surroundings) if self.splits else None
        if known is not None:
            left = entropy(torch.softmax(known, -1)[0].float().numpy())
            self.remaining = left if self.remaining is None else self.remaining + left

    def finished(self, own: SummarisedPrediction) -> SummarisedPrediction:
        """The calibrated prediction of these samples."""
        summary = replace(self.sums.finished(), logits=own.summary.logits, log_sum_exp=own.summary.log_sum_exp)
        known = None
        if own.known_state is not None:
            state = centred(own.known_state)
            inner = self.calibrator.known_state(state, self.surroundings)
            known = torch.softmax(self.mapped(state) if inner is None else inner, -1).float().numpy()
        return SummarisedPrediction(
            summary,
            own.ids,
            own.class_names,
            embedding=own.embedding,
            temperature=own.temperature * self.calibrator.common_temperature,
            uncalibrated=own,
            distance_aware=self.calibrator.distance_aware,
            known_state=known,
            remaining=None if self.remaining is None else self.remaining / summary.count,
        )

    def _centred(self, logits: Tensor) -> Tensor:
        """As a calibrator sees the sample.  # [1, N, C]"""
        probs = [_probabilities(logits[rows].contiguous(), self.temperature) for rows in _blocks(len(logits))]
        return centred(np.concatenate(probs)[None])


def _probabilities(logits: Tensor, temperature: float) -> np.ndarray:
    """As a prediction keeps them.  # [n, C] float32"""
    return torch.softmax(logits.double() / temperature, -1).float().numpy()


def _blocks(nodes: int) -> Iterator[slice]:
    return (slice(start, min(start + ROWS_AT_ONCE, nodes)) for start in range(0, nodes, ROWS_AT_ONCE))
