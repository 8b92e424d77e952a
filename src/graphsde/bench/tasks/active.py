"""Active learning: labels are acquired a few at a time; how fast does each acquisition pay off?"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from graphsde.acting.acquisition import ACQUISITIONS, Candidates, acquire
from graphsde.base.errors import BadInput
from graphsde.base.seeds import derive, numpy_stream
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions
from graphsde.graph.graph import Graph
from graphsde.graph.target import UNLABELLED
from graphsde.metrics.summary import summarise
from graphsde.models import Model
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.held_out import align_labels

SHOWN = ("accuracy", "micro_auroc", "aurc", "nll", "ece")


class ActiveOptions(TaskOptions):
    """Options of :class:`ActiveLearning`.

    Args:
        acquisition: see ``graphsde list acquisitions``.
        batch: labels per round.
        rounds: how many; by default until the number of labels has doubled.
        epochs: of training after each round.
        start: ``warm`` continues from the weights and optimiser of the previous round, ``fresh`` trains a new model in
            full; so does ``warm`` with a model that can't continue, such as label propagation.
        pool: ``untouched`` takes only nodes that are neither trained on, validated nor tested; ``printed`` takes
            validation and test nodes and evaluates on those that are left, as the paper's text suggests.
        tested: with ``untouched``, at most this many test nodes are held out if the split would test all others.
    """

    acquisition: str = "entropy"
    batch: int = Field(5, ge=1, le=10_000)
    rounds: int | None = Field(None, ge=1, le=10_000)
    epochs: int = Field(25, ge=1, le=100_000)
    start: Literal["warm", "fresh"] = "warm"
    pool: Literal["untouched", "printed"] = "untouched"
    tested: int = Field(1000, ge=1)


class ActiveLearning(Task):
    """Start from the split's training nodes, buy ``batch`` labels a round, train on, measure.

    Plain metrics are those after the last round; ``…_area`` is the mean over all rounds, which is what the
    labels were worth along the way. The curves have one entry per round, starting before the first purchase.
    """

    name = "active"
    version = 2
    summary = "labels acquired a few at a time; accuracy per label"
    Options = ActiveOptions
    options: ActiveOptions
    headline = ("accuracy", "accuracy_area", "micro_auroc", "aurc")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        ACQUISITIONS.entry(self.options.acquisition)

    def prepare(self, graph: Graph, seed: int) -> Graph:
        """With nodes that are neither trained on, validated nor tested; a graph without any is refused."""
        prepared, pool = self._pool(super().prepare(graph, seed), seed)
        if not pool.any():
            raise BadInput(
                f"{graph.name} has no labelled nodes to buy besides training, validation and test nodes",
                code="E-EMPTY",
                fix="use a split with unused nodes, fewer test nodes, or pool=printed",
            )
        return prepared

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        o = self.options
        graph, pool = self._pool(graph, seed)
        assert graph.train_mask is not None
        begin = int(graph.train_mask.sum())
        rounds = o.rounds or max(1, begin // o.batch)
        # acquisitions start from the same fit
        model, cost = self.fit_timed(make, graph, to_go_on=self.options.start == "warm")
        curves: dict[str, list[float]] = {"labels": []}
        for done in range(rounds + 1):
            prediction = self.predict_classes(model, graph)
            self._record(curves, prediction, graph)
            if done == rounds or not pool.any():
                break
            candidates = Candidates(
                graph, prediction, np.flatnonzero(pool), np.flatnonzero(graph.train_mask), done / rounds, seed
            )
            bought = acquire(o.acquisition, candidates, o.batch)
            graph, pool = self._buy(graph, pool, bought)
            model = self._train(make, model, graph, derive(seed, "round", done))
        metrics = {name: curves[name][-1] for name in SHOWN}
        metrics |= {f"{name}_area": float(np.mean(curves[name])) for name in SHOWN}
        metrics |= {"labels_begin": float(begin), "labels_end": curves["labels"][-1]}
        return Measurement(metrics | cost, curves)

    def shared_fit(self, graph: Graph) -> list[Any] | None:
        return [*self.split(graph), self.options.pool, self.options.tested]  # fits are kept under what is tested, too

    def _pool(self, graph: Graph, seed: int) -> tuple[Graph, np.ndarray]:
        train, val, test = (graph.masks[role] for role in ("train", "val", "test"))
        if self.options.pool == "printed":
            return graph, (val | test) & graph.labelled
        if int(test.sum()) > self.options.tested:
            order = numpy_stream(seed, "held out").permutation(np.flatnonzero(test))[: self.options.tested]
            test = np.zeros(graph.num_nodes, dtype=bool)
            test[order] = True
            graph = graph.with_masks(split=graph.split, train=train, val=val, test=test)
        return graph, graph.labelled & ~(train | val | test)

    def _buy(self, graph: Graph, pool: np.ndarray, bought: np.ndarray) -> tuple[Graph, np.ndarray]:
        taken = np.zeros(graph.num_nodes, dtype=bool)
        taken[bought] = True
        masks = {role: mask & ~taken for role, mask in graph.masks.items() if role != "train"}
        masks["train"] = graph.masks["train"] | taken
        return graph.with_masks(split=graph.split, **masks), pool & ~taken

    def _train(self, make: ModelMaker, model: Model, graph: Graph, seed: int) -> Model:
        short = model.training_settings(epochs=self.options.epochs)
        if self.options.start == "fresh" or short is None or not model.goes_on:
            return make().fit(graph)
        # another seed, so that continued training does not repeat the same dropout and noise
        return make(**short, seed=seed).start_from(model, momentum=True).fit(graph)

    def _record(self, curves: dict[str, list[float]], prediction: ClassPrediction, graph: Graph) -> None:
        assert graph.train_mask is not None and graph.test_mask is not None
        labels = align_labels(graph, prediction.class_names)
        # all classes, also those without a bought label: otherwise finding one would lower every metric
        figures = summarise(prediction, labels, graph.test_mask & (labels != UNLABELLED))
        curves["labels"].append(float(graph.train_mask.sum()))
        for name in SHOWN:
            curves.setdefault(name, []).append(figures[name])
