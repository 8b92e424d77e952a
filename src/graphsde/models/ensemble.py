"""Deep ensemble: several models of one kind that differ by their seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal, Self, Unpack

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.registry import Rules
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.models.base import MODELS, Estimate, Model, ModelSettings, register_model
from graphsde.models.neural import NeuralModel, require_classes
from graphsde.models.options import EnsembleOptions
from graphsde.models.sampled import TEMPERATURE_SAMPLES
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint, TrainState, under
from graphsde.prediction import (
    ClassPrediction,
    Perturb,
    Prediction,
    RegressionPrediction,
    require,
    require_room_for_samples,
)
from graphsde.uncertainty.calibration.base import centred_logits
from graphsde.uncertainty.calibration.calibrators import best_temperature

_CURRENT = "current."
GEL = "Lin et al., Robust graph neural networks via ensemble learning (2022)"
SINCE: dict[str, Any] = {"select": "nll", "node_dropout": 0.0}
"""Settings of members that came later, and what there was before: cells of a bench are known without them."""


class EnsembleProgress:
    """The ensemble's checkpoint, with finished members and the current member's training state.

    Args:
        checkpoint: the file; without one nothing is kept.
    """

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.checkpoint = checkpoint
        state = None if checkpoint is None else checkpoint.load()
        state = TrainState() if state is None else state
        self.finished: list[dict[str, Any]] = state.values.get("finished", [])
        self.current_values: dict[str, Any] | None = state.values.get("current")
        self.current_tensors = under(_CURRENT, state.tensors)
        self.tensors = {name: tensor for name, tensor in state.tensors.items() if not name.startswith(_CURRENT)}

    def restore(self, number: int, member: Model, class_names: tuple[str, ...]) -> None:
        """Restore a finished ``member``."""
        kept = self.finished[number]
        member.class_names, member.best_epoch = class_names, kept["best_epoch"]
        member.history = [EpochRecord(**record) for record in kept["history"]]
        member.restore(under(member_prefix(number), self.tensors), kept["values"])

    def finish(self, number: int, member: Model) -> None:
        """Keep a member that has just been fitted."""
        if self.checkpoint is None:
            return
        tensors, values = member.state()
        self.tensors |= with_prefix(tensors, member_prefix(number))
        history = [record.as_dict() for record in member.history]
        self.finished.append({"values": values, "best_epoch": member.best_epoch, "history": history})
        self.save_current(TrainState(), None)

    def save_current(self, state: TrainState, values: dict[str, Any] | None) -> None:
        assert self.checkpoint is not None
        self.current_tensors, self.current_values = state.tensors, values
        tensors = self.tensors | with_prefix(state.tensors, _CURRENT)
        self.checkpoint.save(TrainState(tensors, {"finished": self.finished, "current": values}))

    def of_member(self) -> Checkpoint | None:
        """The checkpoint of the member in training."""
        return None if self.checkpoint is None else _MemberCheckpoint(self, self.checkpoint)


class _MemberCheckpoint(Checkpoint):
    """A member's window into the ensemble's file."""

    def __init__(self, progress: EnsembleProgress, whole: Checkpoint) -> None:
        super().__init__(whole.path, whole.every)
        self.progress, self.whole = progress, whole

    def due(self) -> bool:
        return self.whole.due()

    def save(self, state: TrainState) -> None:
        self.progress.save_current(state, state.values)

    def load(self) -> TrainState | None:
        if self.progress.current_values is None:
            return None
        return TrainState(self.progress.current_tensors, self.progress.current_values)

    def clear(self) -> None:
        """Does nothing: until the member is saved as finished, a resumed run needs its last state."""


def member_prefix(number: int) -> str:
    return f"member{number}."


def with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


class EnsembleSettings(ModelSettings):
    """Settings of :class:`Ensemble`.

    Args:
        base: the members' model, by name.
        base_settings: the members' settings, without the seed; the rest is filled in from the graph when
            fitting, as by the base model itself.
        members: how many.
        passing: ``none``: members know nothing of each other; ``knowledge``: they are trained in turn, each also on
            what those before it predict on average.
        knowledge_weight: λ of that part of a member's loss.
        temperature: fit one more temperature, common to all members, on the validation nodes after training.
    """

    base: str = "gcn"
    base_settings: dict[str, Any] = Field(default_factory=dict)
    members: int = Field(5, ge=1, le=1000)
    passing: Literal["none", "knowledge"] = "none"
    knowledge_weight: float = Field(1.0, ge=0)
    temperature: bool = False


@register_model
class Ensemble(Model):
    r"""Independent trainings of one model on one split, which differ by their seed; every member is a sample.

    Paper: Lakshminarayanan, Pritzel and Blundell, "Simple and scalable predictive uncertainty estimation using deep
    ensembles", NeurIPS 2017. Formula: :math:`\bar p = \frac1M \sum_m p_m`; what the members disagree on is epistemic.

    The members of a deterministic or evidential base give one sample each, regardless of ``samples``. Those of a
    sampled base take turns: sample k is sample k div M of member k mod M, so that fewer samples than members leave the
    last members out. The embedding is that of all members side by side.

    Members may each have a temperature, like their base. A mean of calibrated members is underconfident where they
    disagree, hence ``temperature``: one factor on all of them by the NLL of their mean. Logits are before both; of what
    they were divided by the prediction reports the geometric mean.

    Members are trained one after another; ``history`` continues the count of epochs.

    ``passing="knowledge"`` is graph ensemble learning (GEL), with ``base_settings={"node_dropout": 0.5}`` for its
    DropNode before every propagation: Lin et al., "Robust graph neural networks via ensemble learning", Mathematics
    10(8):1300, 2022, which the LGNSDE paper cites for its ensemble and did not run. Its abstract says that predictions
    of prior members are knowledge for the next; how it enters the loss is ours, :math:`\mathrm{CE} +
    \lambda\,\mathrm{mean}_i\,KL(\bar p_i \| p_i)` with the mean of those before. Members then agree more than
    independent ones do, and what they disagree on says less.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.Ensemble(base="gcn", base_settings={"hidden": 8, "epochs": 3}, members=2).fit(graph)
        >>> model.predict(graph).probs.shape
        (2, 1797, 10)
    """

    name = "ensemble"
    summary = "members of any other model that differ by their seed; every member is a sample"
    paper, year = "Lakshminarayanan, Pritzel and Blundell, Simple and scalable predictive uncertainty estimation", 2017
    Settings = EnsembleSettings
    targets = ("classification", "regression")
    settings: EnsembleSettings

    def __init__(self, **settings: Unpack[EnsembleOptions]) -> None:
        super().__init__(**settings)
        self.members: list[Model] = []
        self._previous: list[Model] = []
        self._with_momentum = False
        self._temperature = 1.0
        if "device" in self.settings.base_settings:  # otherwise members would depend on where they were trained
            raise BadUsage("members of an ensemble can't have their own device", fix="fit inside: with gs.on_device(…)")
        first = self._member(0)  # report wrong settings of the base now, not after the first fit has started
        if self.settings.passing == "knowledge":
            from graphsde.models.passing import require_student

            require_student(first)

    def resolve(self, graph: Graph) -> None:
        values = {**self.defaults_for(graph), **self._given}
        self.settings = self.Settings.parse(values, f"model '{self.name}'")
        if self.settings.temperature:
            require_classes(graph)
        member = self._member(0)
        member.resolve(graph)
        plain = member.settings.model_dump(mode="json", exclude={"seed"})
        given = self._given.get("base_settings", {})
        for name, before in SINCE.items():
            if name not in given and plain.get(name) == before:
                del plain[name]
        self.settings = self.settings.model_copy(update={"base_settings": plain})

    def start_from(self, previous: Model, *, momentum: bool = False) -> Self:
        """Each member continues from its counterpart."""
        if not isinstance(previous, Ensemble) or len(previous.members) != self.settings.members:
            raise BadUsage(
                f"this ensemble of {self.settings.members} can't continue from {previous!r}",
                fix="start from a fitted ensemble with the same number of members",
            )
        self._previous, self._with_momentum = list(previous.members), momentum
        self._learned_before = previous._learned_from
        return self

    @property
    def optimiser_state(self) -> dict[str, Tensor] | None:
        own = [member.optimiser_state for member in self.members]
        if not own or any(state is None for state in own):
            return None
        return {f"{number}.{name}": one for number, state in enumerate(own) for name, one in (state or {}).items()}

    @optimiser_state.setter
    def optimiser_state(self, state: dict[str, Tensor] | None) -> None:
        for number, member in enumerate(self.members):
            member.optimiser_state = None if state is None else under(f"{number}.", state)

    def training_settings(self, **wanted: Any) -> dict[str, Any] | None:
        own = self._member(0).training_settings(**wanted)
        return None if own is None else {"base_settings": {**self.settings.base_settings, **own}}

    @property
    def borrowed(self) -> tuple[str, ...]:
        """Papers behind what was chosen here, in addition to those of the ensemble and of its base."""
        return (GEL,) if self.settings.passing == "knowledge" else ()

    @property
    def goes_on(self) -> bool:
        return self._member(0).goes_on

    @property
    def has_feature_gradient(self) -> bool:
        return self._member(0).has_feature_gradient

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        """Callbacks watch one training after another."""
        self.resolve(graph)
        progress = EnsembleProgress(checkpoint)
        members: list[Model] = []
        for number in range(self.settings.members):
            member = self._member(number)
            members.append(member)
            if number < len(progress.finished):
                progress.restore(number, member, graph.class_names)
                continue
            if self._previous:
                member.start_from(self._previous[number], momentum=self._with_momentum)
            with self._taught(member, members[:number], graph):
                member.fit(graph, callbacks=callbacks, checkpoint=progress.of_member(), interrupt=interrupt)
            progress.finish(number, member)
            if interrupt is not None and interrupt.received is not None and number + 1 < self.settings.members:
                raise Interrupted(interrupt.received)
        self.members, self.class_names, self.calibrator = members, graph.class_names, None
        self._target_scale = members[0]._target_scale
        self._temperature = 1.0
        if self.settings.temperature:
            self._temperature = self._common_temperature(graph)
        records = [record for member in members for record in member.history]
        self.history = [replace(record, epoch=epoch) for epoch, record in enumerate(records, start=1)]
        return self

    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        self._require_fitted(samples)
        seed = self.settings.seed if seed is None else seed
        answers: list[Prediction] = []
        for number, member in enumerate(self.members):
            if number >= samples and answers[0].kind == "samples":
                break
            share = max(1, -(-(samples - number) // len(self.members)))  # sample k belongs to member k mod M
            # members' samples are mixed one by one
            kept: dict[str, Any] = {"keep_samples": True} if isinstance(member, NeuralModel) else {}
            own = _member_seed(seed, number)
            answers.append(member.predict(graph, samples=share, seed=own, perturb=perturb, **kept))
            if (
                number == 0 and answers[0].kind == "samples"
            ):  # those of every member, and once more all of them in turns
                require_room_for_samples(2 * samples, graph.num_nodes, max(2, len(self._require_fitted())))
        if self._temperature != 1.0:
            answers = [_tempered(require(one, ClassPrediction, "a temperature"), self._temperature) for one in answers]
        return self._calibrated(MIXTURES.of(self)(answers), graph)

    def _taught(self, member: Model, before: Sequence[Model], graph: Graph) -> AbstractContextManager[None]:
        if self.settings.passing == "none":
            return nullcontext()
        from graphsde.models.passing import taught

        return taught(member, before, self.settings.knowledge_weight, graph)

    def _common_temperature(self, graph: Graph) -> float:
        """By the NLL of the members' mean on the validation nodes; 1 if there are none."""
        assert graph.labels is not None
        rows = np.flatnonzero(graph.role("val") & graph.familiar)
        if not len(rows):
            return 1.0
        count = max(TEMPERATURE_SAMPLES, self.settings.members)
        seed = derive(self.settings.seed, "ensemble temperature")
        prediction = require(self.predict(graph, samples=count, seed=seed), ClassPrediction, "a temperature")
        chosen = centred_logits(prediction.subset(rows)).transpose(0, 1)
        return best_temperature(chosen, torch.from_numpy(graph.labels[rows].copy()))

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        """Members are trained in turn; a finished one keeps its parameters, at most a quarter of what fitting took."""
        one = self._member(0).estimate(graph, samples=samples)
        members = self.settings.members
        kept = (members - 1) * (one.bytes // 4)
        peak = None if one.peak is None else one.peak + kept
        return Estimate(one.bytes + kept, members * one.seconds, members * one.epochs, peak)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._require_fitted()
        tensors: dict[str, Tensor] = {}
        kept = []
        for number, member in enumerate(self.members):
            own, values = member.state()
            tensors |= with_prefix(own, member_prefix(number))
            kept.append({"values": values, "best_epoch": member.best_epoch})
        return tensors, {"members": kept} | ({} if self._temperature == 1.0 else {"temperature": self._temperature})

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        kept = values["members"]
        if len(kept) != self.settings.members:
            raise BadInput(
                f"{len(kept)} members were saved",
                code="E-MODEL-TENSORS",
                expected=f"{self.settings.members}, as the settings say",
            )
        self.members = [self._member(number) for number in range(len(kept))]
        for number, (member, one) in enumerate(zip(self.members, kept, strict=True)):
            member.class_names, member.best_epoch = self._require_fitted(), one["best_epoch"]
            member.restore(under(member_prefix(number), tensors), one["values"])
        self._target_scale = self.members[0]._target_scale
        self._temperature = float(values.get("temperature", 1.0))  # models of earlier versions have none
        if not 0 < self._temperature < np.inf:
            raise ValueError("the temperature is not a positive number")

    def _member(self, number: int) -> Model:
        base, settings = self.settings.base, self.settings.base_settings
        if base == self.name:
            raise BadUsage("an ensemble of ensembles is one large ensemble", code="E-SETTING", fix="raise members")
        if "seed" in settings:
            raise BadUsage(
                "base_settings can't have a seed: all members would be the same",
                code="E-SETTING",
                found=settings["seed"],
                fix="set the ensemble's own seed; members' seeds are derived from it",
            )
        if self._given.get("base_settings", {}).get("calibrator") is not None:
            raise BadUsage(
                "members of an ensemble are not calibrated one by one",
                code="E-SETTING",
                found=self._given["base_settings"]["calibrator"],
                fix="calibrate the ensemble itself: model.calibrate(graph, by=...), or graphsde calibrate",
            )
        kind = MODELS.get(base)
        plain = {"calibrator": None} if "calibrator" in kind.Settings.model_fields else {}
        return kind(**{**settings, **plain}, seed=_member_seed(self.settings.seed, number))


def _member_seed(seed: int, number: int) -> int:
    return derive(seed, "ensemble member", number)


def _tempered(answer: ClassPrediction, temperature: float) -> ClassPrediction:
    """The same prediction, its logits divided by ``temperature`` in addition to its own."""

    def divided(probs: np.ndarray) -> np.ndarray:
        logits = centred_logits(replace(answer, probs=probs))
        return torch.softmax(logits / temperature, -1).numpy().astype(probs.dtype)

    known = None if answer.known_state is None else divided(answer.known_state)
    return replace(answer, probs=divided(answer.probs), known_state=known, temperature=answer.temperature * temperature)


MIXTURES: Rules[Callable[[Sequence[Any]], Prediction]] = Rules("a mixture of predictions")


@MIXTURES.register("classification")
def _mixture_of_classes(answers: Sequence[ClassPrediction]) -> ClassPrediction:
    """Members' probabilities as samples of one prediction."""
    logits = [answer.logits for answer in answers if answer.logits is not None]
    known = [answer.known_state for answer in answers if answer.known_state is not None]
    return ClassPrediction(
        probs=_in_turns([answer.probs for answer in answers]),
        ids=answers[0].ids,
        class_names=answers[0].class_names,
        kind="samples",
        logits=_in_turns(logits) if len(logits) == len(answers) else None,
        embedding=_side_by_side(answers),
        temperature=float(np.exp(np.mean([np.log(answer.temperature) for answer in answers]))),
        known_state=_in_turns(known) if len(known) == len(answers) else None,
    )


def _side_by_side(answers: Sequence[Prediction]) -> np.ndarray | None:
    embeddings = [answer.embedding for answer in answers if answer.embedding is not None]
    return np.concatenate(embeddings, axis=1) if len(embeddings) == len(answers) else None


@MIXTURES.register("regression")
def _mixture_of_numbers(answers: Sequence[RegressionPrediction]) -> RegressionPrediction:
    """Members' numbers as samples of one prediction."""
    known = [answer.known for answer in answers if answer.known is not None]
    return RegressionPrediction(
        means=_in_turns([answer.means for answer in answers]),
        variances=_in_turns([answer.variances for answer in answers]),
        ids=answers[0].ids,
        kind="samples",
        known=_in_turns(known) if len(known) == len(answers) else None,
        embedding=_side_by_side(answers),
    )


def _in_turns(parts: list[np.ndarray]) -> np.ndarray:
    """First samples of all members, then their second samples, …  # M × [S_m, N, C] -> [ΣS_m, N, C]"""
    longest = max(len(part) for part in parts)
    return np.stack([part[turn] for turn in range(longest) for part in parts if turn < len(part)])
