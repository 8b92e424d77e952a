"""A race: members of a model's family are trained for a few epochs each, and the worse half drops out.

Successive halving (Jamieson and Talwalkar, 2016) on validation NLL, or on accuracy where the settings say so. Every
member is trained as it would be alone, and the winner continues from its state, so that it ends with the bits of a
fit with its settings and no race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from graphsde.base.errors import BadInput
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.io.graph_yaml import yaml_error
from graphsde.models.recipes import read_yaml
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint, TrainState, under
from graphsde.nn.training import Training, Validation
from graphsde.uncertainty.calibration.calibrators import best_temperature

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph
    from graphsde.models.neural import NeuralModel

FILE = "candidates.yaml"
FIRST_EPOCHS = 50
"""Epochs of every member before the first half drops out; the others then continue to twice as many, and so on."""
GROWTH = 2


@dataclass(frozen=True)
class Candidate:
    """A member of a family: settings under a name; the user's settings take precedence."""

    name: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """The standing of a member after some epochs: its best validation NLL so far, under its best temperature, and its
    accuracy if members are ranked by it."""

    rung: int
    name: str
    epochs: int
    val_nll: float
    kept: bool
    val_accuracy: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


def listed_candidates(model: str) -> list[Candidate]:
    """The members that ``candidates.yaml`` lists for a model; empty if it has no family."""
    return [Candidate(name, dict(values)) for name, values in _listed().get(model, {}).items()]


@cache
def _listed() -> dict[str, dict[str, dict[str, Any]]]:
    found = read_yaml(resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8"), FILE)
    for model, members in found.items():
        if not isinstance(members, dict) or not all(isinstance(one, dict) for one in members.values()):
            raise yaml_error(f"'{model}' has no candidates", FILE, "write 'name: {setting: value}' below it")
    return found


@dataclass
class Runner:
    """A member in training."""

    candidate: Candidate
    model: NeuralModel
    training: Training

    @classmethod
    def of(cls, model: NeuralModel, candidate: Candidate, graph: Graph) -> Runner:
        rider = model.as_candidate(candidate)
        learner = rider.learner(graph)
        return cls(candidate, rider, Training(learner, rider.settings, notes={"winner": candidate.name}))

    @property
    def select(self) -> Literal["nll", "accuracy"]:
        """What members are ranked by."""
        return self.model.settings.select

    def validation(self) -> Validation:
        """Of the best epoch so far, under its best temperature: a network that is right but not yet as
        confident as it will be must not lose for that."""
        learner = self.training.learner
        live = {name: tensor.detach().clone() for name, tensor in learner.tensors().items()}
        self.training.to_best()
        try:
            logits, labels = learner.validation_logits(), learner.val_labels  # type: ignore[attr-defined]
            return tempered(logits, labels)
        finally:
            with torch.no_grad():
                for name, tensor in learner.tensors().items():
                    tensor.copy_(live[name])


def tempered(logits: Tensor, labels: Tensor) -> Validation:
    """What the mean probabilities say under the best common temperature.  # [n, S, C], [n]"""
    logits, labels = logits.cpu(), labels.cpu()
    probs = torch.softmax(logits.double() / best_temperature(logits, labels), -1).mean(1)
    nll = -probs[torch.arange(len(labels)), labels].clamp_min(1e-12).log().mean()
    return Validation(float(nll), float((probs.argmax(-1) == labels).double().mean()))


def rungs(members: int) -> list[tuple[int, int]]:
    """How many members run, and to which epoch, until one is left.

    Example:
        >>> rungs(6), rungs(2), rungs(1)
        ([(6, 50), (3, 100)], [(2, 50)], [])
    """
    found, epochs = [], FIRST_EPOCHS
    while members > 1:
        found.append((members, epochs))
        members, epochs = members // 2, GROWTH * epochs
    return found


def run_race(
    model: NeuralModel,
    graph: Graph,
    candidates: Sequence[Candidate],
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    interrupt: InterruptGuard | None = None,
) -> tuple[Runner, list[Standing]]:
    """The winner, trained as far as the race went, and the standings at each rung.

    With a ``checkpoint`` an interrupted race is resumed.
    """
    standings: list[Standing] = []
    runners = [Runner.of(model, candidate, graph) for candidate in candidates]
    state = None if checkpoint is None else checkpoint.load()
    if state is not None:
        runners, standings = _resumed(runners, state)
    spent = sum(runner.training.epoch for runner in runners)
    total = sum(count * (epochs - before) for (count, epochs), before in _stages(len(candidates)))
    for rung, (_, epochs) in enumerate(rungs(len(candidates)), start=1):
        if any(one.rung == rung for one in standings):
            continue
        for runner in runners:
            while runner.training.epoch < epochs and not runner.training.over:
                runner.training.advance()
                spent += 1
                for callback in callbacks:
                    callback.on_race(min(spent, total - 1), total)
                received = None if interrupt is None else interrupt.received
                if checkpoint is not None and (received is not None or checkpoint.due()):
                    checkpoint.save(_state(runners, standings))
                if received is not None:
                    raise Interrupted(received)
        seen = [runner.validation() for runner in runners]
        judged = sorted(range(len(runners)), key=lambda place: seen[place].key(runners[place].select))
        kept = set(judged[: max(1, len(runners) // 2)])
        for place in judged:
            runner, found = runners[place], seen[place]
            accuracy = found.accuracy if runner.select == "accuracy" else None
            stood = (rung, runner.candidate.name, runner.training.epoch, found.nll, place in kept, accuracy)
            standings.append(Standing(*stood))
        runners = [runner for place, runner in enumerate(runners) if place in kept]
        for callback in callbacks:
            callback.on_note(_told([one for one in standings if one.rung == rung]))
    for callback in callbacks:
        callback.on_race(total, total)
    return runners[0], standings


def _stages(members: int) -> list[tuple[tuple[int, int], int]]:
    """Each rung with the epoch that it starts after."""
    found = rungs(members)
    return list(zip(found, [0, *(epochs for _, epochs in found)], strict=False))


def _told(standings: Sequence[Standing]) -> str:
    """One rung in words."""
    by, figures = "NLL", [one.val_nll for one in standings]
    if standings[0].val_accuracy is not None:
        by, figures = "accuracy", [one.val_accuracy or 0.0 for one in standings]
    stood = ", ".join(f"{one.name} {figure:.3f}" for one, figure in zip(standings, figures, strict=True))
    kept = " and ".join(one.name for one in standings if one.kept)
    epochs = max(one.epochs for one in standings)
    return f"race after {epochs} epochs, validation {by}: {stood}; remaining: {kept}"


def _state(runners: Sequence[Runner], standings: Sequence[Standing]) -> TrainState:
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {"race": [one.as_dict() for one in standings], "runners": {}}
    for runner in runners:
        state = runner.training.state()
        tensors |= {f"{runner.candidate.name}/{name}": tensor for name, tensor in state.tensors.items()}
        values["runners"][runner.candidate.name] = state.values
    return TrainState(tensors, values)


def _resumed(runners: Sequence[Runner], state: TrainState) -> tuple[list[Runner], list[Standing]]:
    try:
        kept = state.values["runners"]
        still = [runner for runner in runners if runner.candidate.name in kept]
        for runner in still:
            name = runner.candidate.name
            runner.training.restore(TrainState(under(f"{name}/", state.tensors), kept[name]))
        if not still:
            raise KeyError("runners")
        return still, [Standing(**one) for one in state.values["race"]]
    except (KeyError, TypeError) as error:
        raise BadInput("the checkpoint is of another race", code="E-CORRUPT", fix="delete it") from error


def epochs_of_race(members: int, most: int) -> int:
    """Epochs of a race beyond those of its winner, which trains for ``most`` at most."""
    return sum((count - 1) * (min(epochs, most) - min(before, most)) for (count, epochs), before in _stages(members))
