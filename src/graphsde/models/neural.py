"""Models with a module trained by gradient descent on the whole graph."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import scipy.sparse as sp
import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from graphsde.base.device import check_device_name, device_for, widest_type
from graphsde.base.errors import BadUsage, Diverged
from graphsde.base.interrupt import InterruptGuard
from graphsde.base.memory import give_back_free_memory, peak_bytes, require_memory, resident_bytes
from graphsde.base.seeds import torch_stream
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.graph.part_graph import PartGraph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.answers import ANSWERS
from graphsde.models.base import Estimate, Model, ModelSettings, encode
from graphsde.models.cost import rehearse_fit, seconds_of
from graphsde.models.parameters import merge_settings
from graphsde.models.perturbation import moved_features
from graphsde.models.race import Candidate, Runner, Standing, listed_candidates, run_race
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.encoding import FeatureEncoder, Scaling
from graphsde.nn.layers import Features, bring_home, features_on, place
from graphsde.nn.likelihood import LIKELIHOODS, TargetScale
from graphsde.nn.over_parts import everybody, total
from graphsde.nn.settings import TrainSettings
from graphsde.nn.training import RandomStream, Training, Validation, rows_of_masks
from graphsde.prediction import (
    ClassPrediction,
    Kind,
    Perturb,
    Prediction,
    keeps_samples,
    memory_of_samples,
    require_room_for_samples,
)
from graphsde.prediction.base import require_room_for_sums
from graphsde.uncertainty.calibration.calibrators import best_temperature

FIRST_STEP = 40_000_000
"""Bytes that the first backward pass of a process needs for libraries and their threads."""


class NetworkSettings(ModelSettings, TrainSettings):
    """Settings of every trained model.

    Args:
        scaling: how numeric features are scaled: ``row`` (rows that sum to 1), ``l2`` (rows of Euclidean norm 1),
            ``standard``, ``none``, or ``auto``: ``row`` for bag-of-words and ``standard`` otherwise.
        device: where fit and predict compute: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``; by default as
            :func:`graphsde.on_device` or ``GRAPHSDE_DEVICE`` say, otherwise on the CPU. It is not part of a model:
            files, journals and results don't have it.
    """

    scaling: Scaling = "auto"
    device: str | None = Field(None, exclude=True)

    @field_validator("device")
    @classmethod
    def _named(cls, device: str | None) -> str | None:
        try:
            return None if device is None else check_device_name(device)
        except BadUsage as error:
            raise ValueError(error.expected) from None


class NeuralSettings(NetworkSettings):
    """Settings of every trained model whose probabilities are a softmax of logits.

    Args:
        temperature: fit one temperature on the validation nodes after training.
        race: train several sets of settings side by side for a few epochs and keep the one with the best validation
            NLL; given settings stay fixed. The graph's name has no influence.
    """

    temperature: bool = False
    race: bool = False


def require_classes(graph: Graph) -> None:
    """Refuse a temperature if there are no class probabilities."""
    if not graph.num_classes:
        raise BadUsage(
            "temperature is for class probabilities, and this is regression",
            code="E-TARGET",
            fix="leave out temperature, and use calibrate for regression",
        )


@dataclass(frozen=True)
class Inputs:
    """A graph as a module sees it."""

    features: Features  # [N, d]
    adjacency: SparseMatrix  # [N, N], normalised

    @property
    def device(self) -> torch.device:
        return self.adjacency.device

    def on(self, device: torch.device) -> Inputs:
        """The same graph on ``device``."""
        return Inputs(features_on(device, self.features), self.adjacency.on(device))


@dataclass(frozen=True)
class Outputs:
    """What a module returns: logits, and the last hidden state if it has one."""

    logits: Tensor  # [N, C]
    hidden: Tensor | None = None  # [N, h]


@dataclass(frozen=True)
class Response:
    """A model's outputs for all nodes at prediction: logits per sample, embedding, Dirichlet concentrations, and the
    variance of calibrated logits beyond that of the samples."""

    logits: Tensor  # [S, N, C]
    hidden: Tensor | None = None  # [N, h]
    alpha: Tensor | None = None  # [N, C]
    variance: Tensor | None = None  # [N]

    def at_rest(self) -> Response:
        """On the CPU, where predictions live."""
        parts = (None if one is None else one.cpu() for one in vars(self).values())
        return Response(*parts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Draws:
    """A few samples: their logits, and the sum of their hidden states if there are any."""

    logits: Tensor  # [s, N, C]
    hidden: Tensor | None = None  # [N, h], float64


class GraphLearner:
    """A module, a graph and the loss between them, as the training loop needs it."""

    def __init__(self, model: NeuralModel, module: nn.Module, encoder: FeatureEncoder, graph: Graph) -> None:
        if model.fits_temperature:
            require_classes(graph)
        self.device = model.device()
        self.model, self.module, self.encoder = model, module, encoder
        self.narrowed = place(module, self.device)
        self.settings: Any = model.settings
        self.inputs = self.inputs_of(graph)
        self.likelihood = LIKELIHOODS.of(graph).of(graph, module, model._first_scale)
        labels = self.likelihood.targets(graph).to(self.device)
        self.train, self.val = (rows.to(self.device) for rows in rows_of_masks(graph))
        self.train_labels, self.val_labels = labels[self.train], everybody(labels[self.val])
        self.validated = total(len(self.val))
        self.dropout = torch_stream(model.settings.seed, "dropout")

    def inputs_of(self, graph: Graph) -> Inputs:
        """The module's inputs of ``graph``, on its device."""
        return Inputs(encode(self.encoder, graph), graph.adjacency.operator).on(self.device)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return self.model.parameter_groups(self.module)

    def loss(self, epoch: int) -> Tensor:
        self.module.train()
        outputs = self.module(self.inputs, self.dropout)
        return self.likelihood.loss(outputs.logits[self.train], self.train_labels)

    def validate(self, epoch: int) -> Validation | None:
        if not len(self.val):
            return None
        self.module.eval()
        with torch.no_grad():
            return self.likelihood.validation(self.module(self.inputs).logits[self.val], self.val_labels)

    def validation_logits(self) -> Tensor:
        """Logits of the validation nodes, sample by sample, to fit a temperature to.  # [n, S, C]"""
        self.module.eval()
        with torch.no_grad():
            return self.module(self.inputs).logits[self.val][:, None]

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.module.state_dict(keep_vars=True))

    def generators(self) -> Mapping[str, RandomStream]:
        return {"dropout": self.dropout}


class NeuralModel(Model):
    """Base of the gradient-trained models: a subclass sets the module and, if they differ, loss and decay."""

    settings: NetworkSettings
    Module: ClassVar[type[nn.Module]]
    """Made as ``Module(width, classes, settings, generator)``, unless :meth:`build` is overridden."""
    Learner: ClassVar[type[GraphLearner]] = GraphLearner
    """What the training loop drives; a model with another loss has another learner."""
    decayed: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of parameters with weight decay; by default all have it."""
    needs_float64: ClassVar[bool] = False
    """Whether its formulas need float64."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.encoder: FeatureEncoder | None = None
        self.module: nn.Module | None = None
        self._first_tensors: dict[str, Tensor] | None = None
        self._first_encoder: FeatureEncoder | None = None
        self._first_scale: TargetScale | None = None
        self._first_momentum: dict[str, Tensor] = {}
        self._temperature = 1.0
        self._candidate: Candidate | None = None
        self.standings: list[Standing] = []

    def build(self, width: int, classes: int, generator: torch.Generator) -> nn.Module:
        """The module; ``forward(inputs, generator=None) -> Outputs``, with a generator only in training."""
        if not hasattr(self, "Module"):
            raise BadUsage(f"{type(self).__name__} has no network", fix="set Module, or override build")
        return self.Module(width, classes, self.settings, generator)

    def parameter_groups(self, module: nn.Module) -> list[dict[str, Any]]:
        """Parameters with their weight decay, zero if the settings have none."""
        decay = getattr(self.settings, "weight_decay", 0.0)
        if not self.decayed:
            return [{"params": list(module.parameters()), "weight_decay": decay}]
        named = list(module.named_parameters())
        rest = decay if getattr(self.settings, "decay_all", False) else 0.0
        return [
            {"params": [p for name, p in named if name.startswith(self.decayed)], "weight_decay": decay},
            {"params": [p for name, p in named if not name.startswith(self.decayed)], "weight_decay": rest},
        ]

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        training = self._training(graph, callbacks, checkpoint, interrupt)
        learner: GraphLearner = training.learner  # type: ignore[assignment]
        result = training.complete(callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt)
        self._momentum = {name: tensor.cpu() for name, tensor in result.momentum.items()}
        self.take(learner, graph)
        self.history, self.best_epoch = result.records, result.best_epoch
        return self

    def take(self, learner: GraphLearner, graph: Graph) -> None:
        """Become the fitted model of ``learner``."""
        self.finish(learner)
        # at rest a model is on the CPU, for files, other machines and inspection
        bring_home(learner.module, learner.narrowed)
        self.encoder, self.module = learner.encoder, learner.module.eval()
        self.calibrator = None
        self.class_names, self._target_scale = graph.class_names, learner.likelihood.scale

    def _training(
        self,
        graph: Graph,
        callbacks: Sequence[Callback],
        checkpoint: Checkpoint | None,
        interrupt: InterruptGuard | None,
    ) -> Training:
        """The training of a fit: after the race, if there is one."""
        self.resolve(graph)
        state = None if checkpoint is None else checkpoint.load()
        candidates = self._field(graph)
        if len(candidates) < 2:
            training = Training(self.learner(graph), self.settings, momentum=self._first_momentum)
            if state is not None:
                training.restore(state)
            return training
        if state is not None and "winner" in state.values:
            won = next(one for one in candidates if one.name == state.values["winner"])
            runner, self.standings = Runner.of(self, won, graph), [Standing(**one) for one in state.values["race"]]
            runner.training.restore(state)
        else:
            runner, self.standings = run_race(
                self, graph, candidates, callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt
            )
        runner.training.notes["race"] = [one.as_dict() for one in self.standings]
        self._candidate = runner.candidate
        self.resolve(graph)
        return runner.training

    def _field(self, graph: Graph) -> list[Candidate]:
        """The members of a fit's race; empty if there is none, or no validation nodes."""
        if isinstance(graph, PartGraph):
            return list(graph.whole.candidates)
        s = self.settings
        if not isinstance(s, NeuralSettings) or not s.race or not s.early_stop or self._first_tensors is not None:
            return []
        return self.candidates(graph) if len(rows_of_masks(graph)[1]) else []

    def candidates(self, graph: Graph) -> list[Candidate]:
        """The members that a race on ``graph`` would have, likeliest winner first; empty without a family."""
        return listed_candidates(self.name) if graph.class_names else []

    def as_candidate(self, candidate: Candidate) -> Self:
        """A model like this one with the settings of a member; given settings take precedence."""
        rider = self.__sklearn_clone__()
        rider._candidate = candidate
        return rider

    def resolve(self, graph: Graph) -> None:
        """As for every model; the settings of a race's winner rank between the graph's and the given ones."""
        self.require_target(graph)
        if isinstance(graph, PartGraph):
            given = graph.whole.settings["" if self._candidate is None else self._candidate.name]
        else:
            values = self.defaults_for(graph)
            if self._candidate is not None:
                values = merge_settings(values, self._candidate.settings)
            given = merge_settings(values, self._given)
        parsed = self.Settings.parse(given, f"model '{self.name}'")
        assert isinstance(parsed, NetworkSettings)
        self.settings = parsed

    def predict(
        self,
        graph: Graph,
        *,
        samples: int = 64,
        seed: int | None = None,
        perturb: Perturb | None = None,
        keep_samples: bool | None = None,
    ) -> Prediction:
        """Samples are drawn for ``seed`` (default: the model's own); sample k is the same however many are drawn.

        Args:
            graph, samples, seed, perturb: as for every model.
            keep_samples: whether every sample of every node is kept. By default up to 2 GiB of them are
                (``GRAPHSDE_SAMPLE_MEMORY`` sets another number of MiB); of more, only sums are
                (:class:`~graphsde.SummarisedPrediction`), and memory does not depend on how many there are.
        """
        return self._answered(graph, samples, seed, perturb, parts=True, keep=keep_samples)

    def predict_total(self, graph: Graph, *, samples: int = 64, seed: int | None = None) -> Prediction:
        if type(self).predict is not NeuralModel.predict:
            return self.predict(graph, samples=samples, seed=seed)
        # a calibrator may use what is known about the state
        return self._answered(graph, samples, seed, None, parts=self.calibrator is not None)

    def _answered(
        self,
        graph: Graph,
        samples: int,
        seed: int | None,
        perturb: Perturb | None,
        *,
        parts: bool,
        keep: bool | None = None,
    ) -> Prediction:
        """``parts``: whether to compute the variance of the state, which separates aleatoric from epistemic."""
        self._require_fitted(samples)
        assert self.encoder is not None and self.module is not None
        self._check_classes(graph)
        size = graph.num_nodes, self._head_width
        if keep is None:
            keep = keeps_samples(samples, *size)
        summarised = self.kind == "samples" and self.target_kind == ClassPrediction.target_kind and not keep
        if self.kind == "samples":
            (require_room_for_sums if summarised else require_room_for_samples)(samples, *size)
        device = self.device()
        model = self._copy_on(device)
        inputs = Inputs(encode(self.encoder, graph), graph.adjacency.operator).on(device)
        if perturb is not None:
            inputs = replace(inputs, features=moved_features(model, graph, inputs, perturb))
        seed = self.settings.seed if seed is None else seed
        if summarised:
            from graphsde.models.summarise import summarised_answer

            return summarised_answer(model, inputs, graph, samples, seed, parts=parts)
        with torch.no_grad():
            response = model.respond(inputs, graph, samples, seed)
            if parts and response.variance is None:
                response = replace(response, variance=model.state_variance(inputs))
        response = response.at_rest()
        if not bool(torch.isfinite(response.logits).all()):
            raise Diverged("the model's output is not finite", fix="lower lr, or scale the features")
        return self._calibrated(ANSWERS.of(self)(self, response, graph.node_ids), graph)

    def device(self) -> torch.device:
        """Where :meth:`fit` and :meth:`predict` compute."""
        device = device_for(self.settings.device)
        if self.needs_float64 and widest_type(device) is not torch.float64:
            raise BadUsage(
                f"{self.name} computes in float64, which {device} does not have",
                code="E-DEVICE",
                found=str(device),
                fix="use device='cpu'",
            )
        return device

    def _copy_on(self, device: torch.device) -> Self:
        """This model on its device for prediction; a copy there, so that threads can share this one."""
        if device.type == "cpu":
            return self
        twin = copy.copy(self)
        twin.module = copy.deepcopy(self.module)
        assert twin.module is not None
        place(twin.module, device)
        return twin

    @property
    def _head_width(self) -> int:
        """Outputs per node of a fitted model: one per class, or mean and variance of a number."""
        return LIKELIHOODS.of(self).width(len(self._require_fitted()))

    @property
    def kind(self) -> Kind:
        """What the spread of a prediction is."""
        return "deterministic"

    def respond(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Response:
        """The module's outputs, sample by sample if it has samples; called without autograd."""
        assert self.module is not None
        outputs = self.module(inputs)
        return Response(outputs.logits.cpu().double()[None], outputs.hidden)

    def draws(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Iterator[Draws]:
        """The samples of :meth:`respond`, in order, a few at a time; all at once if a model can't do that."""
        response = self.respond(inputs, graph, samples, seed)
        hidden = response.hidden
        hidden = None if hidden is None else hidden.cpu().double() * len(response.logits)
        yield Draws(response.logits.cpu(), hidden)

    def state_variance(self, inputs: Inputs) -> Tensor | None:
        """Variance of every node's calibrated logits beyond that of the samples, if a model knows it.  # [N]"""
        return None

    def central_logits(self, inputs: Inputs, graph: Graph) -> Tensor:
        """One differentiable output for the model: without dropout, or the mean of a few samples.  # [N, C]"""
        assert self.module is not None
        return self.module(inputs).logits

    def central_logits_at(self, inputs: Inputs, graph: Graph, node: int, own: Tensor) -> Tensor | None:
        """Of one node by its own features alone; ``None`` where that takes no less than all nodes.  # [d] -> [C]"""
        return None

    @property
    def fits_temperature(self) -> bool:
        """Whether a fit ends with a temperature."""
        return isinstance(self.settings, NeuralSettings) and self.settings.temperature

    def temperature_of_logits(self) -> float:
        """What logits are divided by before the softmax; 1 if none was fitted."""
        return self._temperature

    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        """Memory by arithmetic, checked against what is free; time and peak by a trial fit on scratch copies."""
        self.resolve(graph)
        held, tried = resident_bytes(), self._entrants(graph)
        needed = _side_by_side(tried, graph)
        what, fix = f"fitting {self.name} on {graph.name}", "use a smaller hidden width or a smaller graph"
        require_memory(needed, what, fix, self.device())
        drawn = max(one.prediction_memory(graph, samples) for one in tried)
        rehearsed = [rehearse_fit(one, graph, samples) for one in tried]
        peak, epochs = max(peak_bytes(), held + drawn), max(one.epochs for one in rehearsed)
        estimate = Estimate(max(needed, drawn), seconds_of(rehearsed), epochs, peak)
        del rehearsed, tried
        give_back_free_memory()  # of the scratch copies, before the fit needs its own
        return estimate

    def _entrants(self, graph: Graph) -> list[Self]:
        """Copies of the models that a fit would train: the members of its race, or only this one."""
        candidates = self._field(graph)
        if len(candidates) < 2:
            return [copy.copy(self)]
        found = [self.as_candidate(candidate) for candidate in candidates]
        for one in found:
            one.resolve(graph)
        return found

    def needed_memory(self, graph: Graph, *, samples: int = 64) -> int:
        """Bytes that a fit and a prediction with ``samples`` add, by arithmetic alone."""
        self.resolve(graph)
        tried = self._entrants(graph)
        return max(_side_by_side(tried, graph), *(one.prediction_memory(graph, samples) for one in tried))

    def memory(self, graph: Graph) -> int:
        """Bytes that a fit adds: features and their transpose, adjacency, activations and their gradients, Adam."""
        return self.standing_memory(graph) + FIRST_STEP + 4 * graph.num_nodes * self.activations(graph)

    def standing_memory(self, graph: Graph) -> int:
        """Bytes kept between epochs: the graph as a module sees it, and parameters."""
        if sp.issparse(graph.features):
            features = 24 * int(graph.features.nnz)  # type: ignore[union-attr]
        else:
            features = 4 * graph.num_nodes * FeatureEncoder.fit(graph, self.settings.scaling).width
        parameters = sum(p.numel() for p in self._sketched(graph).parameters())
        return features + 12 * (graph.num_edges + graph.num_nodes) + 16 * parameters

    def prediction_memory(self, graph: Graph, samples: int) -> int:
        """Bytes that a prediction adds to the memory before the fit."""
        sketch = copy.copy(self)
        sketch.module = self._sketched(graph)
        drawn = samples if sketch.kind == "samples" else 1
        outputs = LIKELIHOODS.of(graph).width(graph.num_classes)
        return self.standing_memory(graph) + memory_of_samples(drawn, graph.num_nodes, outputs)

    def _sketched(self, graph: Graph) -> nn.Module:
        """A module without values, for its shapes only."""
        with torch.device("meta"):
            width = FeatureEncoder.fit(graph, self.settings.scaling).width
            return self._built(width, graph.target_kind, graph.num_classes)

    def activations(self, graph: Graph) -> int:
        """Floats per node that are alive at once in a training step."""
        hidden = getattr(self.settings, "hidden", graph.num_classes)
        return 6 * (hidden + graph.num_classes)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._require_fitted()
        assert self.encoder is not None and self.module is not None
        values: dict[str, Any] = {"encoder": self.encoder.as_dict()}
        if self._target_scale is not None:
            values["target"] = self._target_scale.as_dict()
        if self._temperature != 1.0:
            values["temperature"] = self._temperature
        if self.standings:
            values["race"] = [one.as_dict() for one in self.standings]
        return dict(self.module.state_dict()), values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        from graphsde.models.files import load_tensors

        self.encoder = FeatureEncoder.from_dict(values["encoder"])
        self._target_scale = TargetScale.from_dict(values["target"]) if "target" in values else None
        self._temperature = float(values.get("temperature", 1.0))  # models of earlier versions have none
        if not 0 < self._temperature < math.inf:
            raise ValueError("the temperature is not a positive number")
        self.standings = [Standing(**one) for one in values.get("race", [])]
        module = self._built(self.encoder.width, self.target_kind, len(self._require_fitted()))
        load_tensors(module, tensors)
        self.module = module.eval()

    def start_from(self, previous: Model, *, momentum: bool = False) -> Self:
        """The next fit starts from the weights of ``previous``, which must be of the same kind and shape."""
        if not isinstance(previous, NeuralModel) or previous.module is None or previous.name != self.name:
            raise BadUsage(f"{self.name} can't start from {previous.name}", fix="use a fitted model of its kind")
        self._first_tensors = {name: tensor.clone() for name, tensor in previous.module.state_dict().items()}
        self._first_encoder, self._first_scale = previous.encoder, previous._target_scale
        self._learned_before = previous._learned_from
        # a finished race is not repeated: weights of another shape could not continue
        kept = previous.settings.model_dump(exclude={"seed", "race", "preset"})
        self._candidate = Candidate("as before", kept) if getattr(previous.settings, "race", False) else None
        # the optimiser modifies its arguments
        moments = (previous._momentum or {}) if momentum else {}
        self._first_momentum = {name: tensor.clone() for name, tensor in moments.items()}
        return self

    def finish(self, learner: GraphLearner) -> None:
        """What follows after restoring the best epoch: a temperature, if set."""
        self._temperature = 1.0
        if self.fits_temperature and learner.validated:
            self._temperature = best_temperature(learner.validation_logits(), learner.val_labels)

    def _built(self, width: int, kind: str, classes: int) -> nn.Module:
        """The module for a kind of target and, if it has any, the number of classes."""
        likelihood = LIKELIHOODS.of_kind(kind)
        generator = torch_stream(self.settings.seed, "init")
        return likelihood.prepare(self.build(width, likelihood.width(classes), generator))

    def learner(self, graph: Graph) -> GraphLearner:
        """Module, graph and loss at the start of training."""
        self.resolve(graph)
        if isinstance(graph, PartGraph):
            encoder = graph.whole.encoder(self.settings.scaling)
        else:
            require_trainable(graph, early_stop=self.settings.early_stop)
            # weights learned with one encoding are meaningless with another: they keep theirs
            encoder = self._first_encoder or FeatureEncoder.fit(graph, self.settings.scaling)
        module = self._built(encoder.width, graph.target_kind, graph.num_classes)
        if self._first_tensors is not None:
            from graphsde.models.files import load_tensors

            load_tensors(module, self._first_tensors)
        return self.learner_for(module)(self, module, encoder, graph)

    def learner_for(self, module: nn.Module) -> type[GraphLearner]:
        """The learner that trains ``module``."""
        return self.Learner


def _side_by_side(models: Sequence[NeuralModel], graph: Graph) -> int:
    """Bytes of several models trained in turns."""
    return max(one.memory(graph) - one.standing_memory(graph) for one in models) + sum(
        one.standing_memory(graph) for one in models
    )
