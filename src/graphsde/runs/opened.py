"""A finished run, opened: its model, graph and prediction, each read on first use."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.prediction.learned_from import LearnedFrom
from graphsde.runs.folder import RunFolder
from graphsde.runs.kept_prediction import FILE, unpack_prediction

Value = TypeVar("Value")


class OpenedRun:
    """A finished run as it was when it was opened; made by :func:`open_run`.

    Kept predictions are not computed again. Later reads must be of the same state: a run that another process
    changes meanwhile is refused (``E-RUN-CHANGED``), so that parts of two states are never mixed.

    Args:
        folder: of the run.

    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._state = folder.state()
        self._predictions: dict[tuple[int, int | None], Prediction] = {}

    @cached_property
    def model(self) -> Model:
        return self._of_this_state(self.folder.load_model)

    @cached_property
    def graph(self) -> Graph:
        """With its split and learned labels; refused if the data has changed since the fit."""
        return self._of_this_state(self.folder.load_graph)

    @cached_property
    def samples(self) -> int:
        """How many the fit drew."""
        return int(self._of_this_state(self.folder.read_config)["samples"])

    def prediction(self, samples: int | None = None, seed: int | None = None) -> Prediction:
        """The prediction for every node of the run's graph.

        Args:
            samples: how many; those of the fit have been kept, any other number is computed.
            seed: of the samples, in the same way; default: the model's.
        """
        drawn = samples or self.samples
        if (drawn, seed) not in self._predictions:
            found = self._of_this_state(lambda: self._kept(drawn, seed))
            if found is None:
                found = self.model.predict(self.graph, samples=drawn, seed=seed)
            self._predictions[drawn, seed] = found.known_to_be_of(self.graph, self._learned_from)
        return self._predictions[drawn, seed]

    @cached_property
    def _learned_from(self) -> LearnedFrom | None:
        """Nodes with such roles in the run, and those that the file of its model names."""
        learned, kept = LearnedFrom.of(self.graph), self.model._learned_from
        return learned if learned is None or kept is None else learned.and_also(self.graph, kept.among(self.graph))

    def _kept(self, samples: int, seed: int | None) -> Prediction | None:
        graph = self.graph  # first: no prediction for data that has changed
        bundle = self.folder.kept(FILE)
        if bundle is None or bundle.values.get("samples") != samples:
            return None
        if seed is not None and bundle.values.get("seed") != seed:
            return None
        return unpack_prediction(bundle, graph.node_ids, self.folder.path / FILE)

    def _of_this_state(self, read: Callable[[], Value]) -> Value:
        value = self.folder.consistently(read)
        if self.folder.state() != self._state:
            raise self.folder.restless()
        return value


def open_run(path: str | os.PathLike[str]) -> OpenedRun:
    """Open the folder of a finished run, as the command line does.

    Args:
        path: the folder.

    Raises:
        BadInput: there is no finished run, or one of its files is damaged.

    Example:
        >>> run = open_run("runs/first")  # doctest: +SKIP
        >>> gs.decide(run.prediction(), run.graph, max_error=0.05)  # doctest: +SKIP
    """
    return RunFolder(Path(path), say=lambda text: warnings.warn(text, stacklevel=2)).opened()
