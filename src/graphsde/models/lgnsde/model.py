"""Latent graph neural SDE."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from graphsde.base.device import widened
from graphsde.base.errors import BadUsage
from graphsde.base.interrupt import InterruptGuard
from graphsde.base.scratch import scratch_tensor
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.graph.part_graph import PartGraph
from graphsde.graph.sparse import LARGE_BYTES
from graphsde.models.base import encode, register_model
from graphsde.models.lgnsde.last_layer import last_layer_features
from graphsde.models.lgnsde.learner import LGNSDELearner
from graphsde.models.lgnsde.module import LGNSDEModule, Noise
from graphsde.models.lgnsde.presets import REGRESSION, family_settings, follow_parts, preset_for, preset_settings
from graphsde.models.lgnsde.rule import choose
from graphsde.models.lgnsde.settings import LGNSDESettings, plain_parts
from graphsde.models.neural import Draws, GraphLearner, Inputs, NeuralModel, Response
from graphsde.models.options import LGNSDEOptions
from graphsde.models.parameters import merge_settings
from graphsde.models.race import Candidate
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint, under
from graphsde.prediction import Kind, Trajectories, require_room_for_samples
from graphsde.sde.brownian import keys_of
from graphsde.sde.drift import DRIFTS
from graphsde.uncertainty.calibration import CALIBRATORS, DiffusionTemperature
from graphsde.uncertainty.calibration.calibrators import best_temperature, require_calibrator
from graphsde.uncertainty.evidence import validation_nodes
from graphsde.uncertainty.state_posterior import StatePosterior

# floats of latent state that a chunk of prediction paths may hold
CHUNK_FLOATS = 4_000_000
# bytes per node of the evidence while it is fitted
EVIDENCE = 1_000
# how much faster than weights the coefficients of a filter learn
FILTER_RATE = 3.0
# prefix of the posterior's tensors in a model's file
POSTERIOR = "posterior."


@register_model
class LGNSDE(NeuralModel):
    r"""Node states that move by a stochastic differential equation on the graph; its paths are the uncertainty.

    Paper: Bergna et al., "Uncertainty modeling in graph neural networks via stochastic differential equations",
    ICLR 2025. Posterior :math:`dH = f_\phi(H, t) dt + g\,dW`, H(0) = enc(X), prior :math:`dH = p(H, t) dt + g\,dW` with
    the same g, logits dec(H(T)); trained on

    .. math:: E[\log p(Y \mid H(T))] - \tfrac12 \int_0^T \| g^{-1} (f_\phi - p) \|^2 dt.

    The default preset is not the paper's network but a graph diffusion with noise in proportion to the signal, which
    performs better; ``preset="paper"`` and ``preset="released"`` are the paper's text and the authors' code.

    Args:
        preset: ``universal`` (default), ``closed-world``, ``open-world``, ``paper`` or ``released``; what it leaves
            open is filled in from the graph when fitting.
        settings: those below; they take precedence over the preset. The defaults are those of the default preset.

    For regression the decoder gives mean and variance of a Gaussian on every path.

    The spread over paths is reported as epistemic. Whether it is the posterior over H or noise is debatable:
    the paper calls it both. The preset ``auto`` adds the posterior uncertainty of the logits
    (:mod:`graphsde.uncertainty.state_posterior`), so that its members without noise have an epistemic part too; the
    probabilities are the same with it and without.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> model = gs.LGNSDE(epochs=5, seed=0, sigma=0.5, race=False).fit(graph)
        >>> model.predict(graph, samples=8).probs.shape
        (8, 1797, 10)
    """

    name = "lgnsde"
    summary = "latent graph neural SDE; its paths are samples"
    paper = "Bergna et al., Uncertainty modeling in graph neural networks via stochastic differential equations"
    year = 2025
    version = 3  # the preset auto ends with a distance-aware calibrator
    Settings = LGNSDESettings
    Module, Learner = LGNSDEModule, LGNSDELearner
    targets = ("classification", "regression")
    settings: LGNSDESettings
    module: LGNSDEModule
    default_preset: ClassVar[str] = LGNSDESettings.model_fields["preset"].default
    first_default_preset: ClassVar[str] = "universal"
    """The default of the first versions, which cells of a bench without a preset refer to."""

    def __init__(self, **settings: Unpack[LGNSDEOptions]) -> None:
        given = plain_parts(settings)
        if "preset" not in given and preset_for(given) != self.default_preset:
            given["preset"] = preset_for(given)
        preset = given.get("preset", self.default_preset)
        super().__init__(**merge_settings(follow_parts(self.preset_values(preset, None), given), given))
        self._given = given
        self._posterior: StatePosterior | None = None

    @classmethod
    def preset(cls, preset: str, **settings: Any) -> Self:
        """A model with a preset's settings: ``LGNSDE.preset("open-world", hidden=64)``."""
        return cls(preset=preset, **settings)

    @classmethod
    def default_settings(cls) -> LGNSDESettings:
        preset = cls.default_preset
        return LGNSDESettings.parse({**cls.preset_values(preset, None), "preset": preset}, f"model '{cls.name}'")

    @classmethod
    def preset_values(cls, preset: str, graph: Graph | None) -> dict[str, Any]:
        """The settings of a preset, for a graph if they depend on it."""
        return preset_settings(preset, graph)

    def defaults_for(self, graph: Graph) -> dict[str, Any]:
        if self._candidate is not None and self.settings.preset == "auto":
            return family_settings(graph)  # the member sets the rest, and must not inherit it from another one
        values = follow_parts(self.preset_values(self.settings.preset, graph), self._given)
        return merge_settings(values, REGRESSION) if graph.target_kind == "regression" else values

    def candidates(self, graph: Graph) -> list[Candidate]:
        if self.settings.preset != "auto" or not graph.class_names:
            return []
        return choose(graph).candidates()

    def parameter_groups(self, module: nn.Module) -> list[dict[str, Any]]:
        # of a perceptron only the first layer decays: the second may grow to what the logits need
        own = ("encoder.first.",) if self.settings.encoder == "mlp" else ("encoder.",)
        encoder = [p for name, p in module.named_parameters() if name.startswith(own)]
        rest = [p for name, p in module.named_parameters() if not name.startswith(own)]
        decay = self.settings.weight_decay
        # a coefficient per channel has small gradients, and decay would pull it to an unwanted filter
        filters = [p for name, p in module.named_parameters() if name == "drift.raw"]
        if filters:
            rest = [p for p in rest if all(p is not one for one in filters)]
            own_rate = [{"params": filters, "weight_decay": 0.0, "lr": FILTER_RATE * self.settings.lr}]
        else:
            own_rate = []
        if self.settings.decay_all:
            return [{"params": encoder + rest, "weight_decay": decay}, *own_rate]
        weight = [p for p in encoder if p.dim() == 2]
        biases = [p for p in encoder if p.dim() != 2]
        return [{"params": weight, "weight_decay": decay}, {"params": biases + rest, "weight_decay": 0.0}, *own_rate]

    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        how: dict[str, Any] = {"callbacks": callbacks, "checkpoint": checkpoint, "interrupt": interrupt}
        if isinstance(graph, PartGraph):
            return super().fit(graph, **how)  # the process that has the whole graph calibrates
        if self.settings.way == "partitioned":
            from graphsde.models.partitioned import fit_in_parts

            fit_in_parts(self, graph, **how)
        else:
            super().fit(graph, **how)
        return self._calibrated_on(graph)

    def _calibrated_on(self, graph: Graph) -> Self:
        """With the calibrator of the settings, if there are validation nodes to fit it on."""
        by = self.settings.calibrator
        return self if by is None or not len(validation_nodes(graph)) else self.calibrate(graph, by=by)

    def resolve(self, graph: Graph) -> None:
        super().resolve(graph)
        if self.settings.calibrator is not None:  # refused before training, not after it
            require_calibrator(self.settings.calibrator, graph.target_kind)

    def learner_for(self, module: nn.Module) -> type[GraphLearner]:
        if self.settings.way != "batched":
            return self.Learner
        from graphsde.models.lgnsde.batched import batch_learner

        assert isinstance(module, LGNSDEModule)
        return batch_learner(module)

    def finish(self, learner: GraphLearner) -> None:
        """Scale the noise to the signal of the kept epoch; fit a temperature on the validation nodes; posterior of the
        training nodes."""
        assert isinstance(learner, LGNSDELearner)
        learner.measure_signal()
        if self.settings.temperature and learner.validated:
            fitted = best_temperature(learner.validation_logits(), learner.val_labels)
            learner.module.log_temperature.fill_(math.log(fitted))
        # other presets, and the graph ODE, stay as they were when their results were recorded
        family = self.settings.preset == self.default_preset == "auto"
        self._posterior = learner.state_posterior() if family else None

    @property
    def kind(self) -> Kind:
        if self.module.noisy:
            return "samples"
        return "deterministic" if self._posterior is None else "gaussian"

    def temperature_of_logits(self) -> float:
        return float(self.module.log_temperature.exp())

    def respond(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Response:
        """Paths in chunks; path k is the same however many are drawn."""
        kept = samples if self.module.noisy else 1
        logits = torch.empty(kept, graph.num_nodes, self._head_width)
        embedding = scratch_tensor((graph.num_nodes, self.module.width), torch.float64).zero_()
        first = 0
        for draw in self.draws(inputs, graph, kept, seed):
            assert draw.hidden is not None
            logits[first : first + len(draw.logits)] = draw.logits
            embedding += draw.hidden
            first += len(draw.logits)
            del draw  # as large as the sum, and not needed while the next one is made
        return Response(logits, embedding.div_(kept))

    def draws(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Iterator[Draws]:
        stream, keys = derive(seed, "prediction paths"), keys_of(graph).to(inputs.device)
        flow = self._solved_once(inputs, graph)
        deviation = self.module.unit_deviation(inputs) if flow is not None and self.module.noisy else None
        for paths, used in chunks(samples, graph.num_nodes * self.module.width):
            yield self._drawn(inputs, Noise(stream, keys, paths), used, flow, deviation)

    def _drawn(
        self, inputs: Inputs, noise: Noise, used: int, flow: tuple[Tensor, Tensor] | None, deviation: Tensor | None
    ) -> Draws:
        """The first few paths of ``noise``; apart, so that nothing of one chunk stays while the next one is made."""
        if flow is None:
            state = self.module.evolve(inputs, noise, None).state
        elif deviation is None:
            state = self.module.beside(flow[1], flow[0])
        else:  # one solve serves all draws
            state = self.module.beside(self.module.around(inputs, flow[1], noise, deviation=deviation), flow[0])
        drawn = self.module.decode(inputs, state).transpose(0, 1)[:used].cpu()  # [S, N, C]
        hidden = widened(state[:, :used, : self.module.width])
        return Draws(drawn, (hidden[:, 0] if used == 1 else hidden.sum(1)).cpu())

    def _solved_once(self, inputs: Inputs, graph: Graph) -> tuple[Tensor, Tensor] | None:
        """H(0) and H(T) without noise where one solve is enough for all draws.  # [N, 1, d] each"""
        if self.settings.way == "batched" and self.settings.predict_by == "rows":
            from graphsde.models.lgnsde.batched import solved_by_rows, why_no_rows

            if why_no_rows(self.module) is None:
                return solved_by_rows(self.module, inputs, graph.adjacency, self.settings)
        return self.module.mean_path(inputs) if self.module.noisy and self.settings.noise_by == "marginals" else None

    def state_variance(self, inputs: Inputs) -> Tensor | None:
        """Variance of every node's calibrated logits, given which nodes were trained on.  # [N]"""
        features = None if self._posterior is None else last_layer_features(self.module, inputs)
        return None if self._posterior is None or features is None else self._posterior.variance(features.cpu())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super().state()
        if self._posterior is not None:
            tensors |= {POSTERIOR + name: one for name, one in self._posterior.tensors().items()}
        return tensors, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        own = under(POSTERIOR, tensors)  # models of earlier versions have none
        super().restore({name: one for name, one in tensors.items() if not name.startswith(POSTERIOR)}, values)
        self._posterior = StatePosterior.from_tensors(own) if own else None

    def central_logits(self, inputs: Inputs, graph: Graph) -> Tensor:
        """Mean over a few paths."""
        state = self.module.evolve(inputs, self._central_paths(inputs, graph), None).state
        return self.module.decode(inputs, state).mean(1)

    def central_logits_at(self, inputs: Inputs, graph: Graph, node: int, own: Tensor) -> Tensor | None:
        """The encoder of the other nodes, which is what takes most memory, is left out of the gradient."""
        if self.settings.encoder == "gcn" or not self.module.by_node:
            return None
        with torch.no_grad():
            others = self.module.initial(inputs, 1, None)
        row = torch.tensor([node], device=inputs.device)
        initial = others.index_copy(0, row, self.module.initial(Inputs(own[None], inputs.adjacency), 1, None))
        noise = self._central_paths(inputs, graph)
        state = self.module.evolve(inputs, noise, None, rows=row, initial=initial).state
        return self.module.decode(inputs, state).mean(1)[0]

    def _central_paths(self, inputs: Inputs, graph: Graph) -> Noise:
        paths = range(4 if self.module.noisy else 1)
        return Noise(derive(self.settings.seed, "central paths"), keys_of(graph).to(inputs.device), paths)

    def linear_filter(self) -> tuple[float, int] | None:
        """Of a member whose state is one block of logits."""
        s = self.settings
        kappa = self.module.drift.coefficients()
        if kappa is None or s.state != "logits" or s.hidden != 1 or s.steps != s.horizon:
            return None
        return float(kappa.detach().mean()), s.steps

    @property
    def has_trajectories(self) -> bool:
        """Whether :meth:`trajectories` is available: they are of class probabilities."""
        return self.target_kind == "classification"

    def trajectories(
        self, graph: Graph, nodes: Sequence[int], *, samples: int = 64, seed: int | None = None
    ) -> Trajectories:
        """The paths of :meth:`predict` over time, for the nodes at some positions."""
        classes = self._require_fitted()
        if not self.has_trajectories:
            raise BadUsage("trajectories need class probabilities, and this model predicts numbers", code="E-TARGET")
        assert self.encoder is not None
        require_room_for_samples(samples, len(nodes) * (self.settings.steps + 1), len(classes))
        inputs = Inputs(encode(self.encoder, graph), graph.adjacency.operator)
        stream = derive(self.settings.seed if seed is None else seed, "prediction paths")
        keys, rows = keys_of(graph), torch.as_tensor(list(nodes))
        temperature = self.temperature_of_logits()
        parts = []
        with torch.no_grad():
            initial = self.module.initial(inputs, 1, None)
            for paths, used in chunks(samples, graph.num_nodes * self.module.width * (self.settings.steps + 1)):
                path = self.module.trajectory(inputs, Noise(stream, keys, paths), initial, save="all")
                logits = torch.stack([self._read(inputs, state, initial, rows)[:, :used] for state in path.saved])
                parts.append(torch.softmax(logits / temperature, -1))  # [M, n, s, C]
        probs = torch.cat(parts, dim=2).transpose(1, 2)
        return Trajectories(np.array(path.times), probs.numpy(), graph.node_ids[rows.numpy()], classes)

    def _read(self, inputs: Inputs, state: Tensor, initial: Tensor, rows: Tensor) -> Tensor:
        """Logits of some nodes at an intermediate state.  # [n, S, C]"""
        return self.module.decode_at(inputs, self.module.beside(state, initial), rows)

    def memory(self, graph: Graph) -> int:
        """Like every model, plus the validation paths of all nodes and the evidence, if used."""
        s = self.settings
        each = 12 * s.validation_paths * self.state_width(graph) if s.early_stop and s.noise_by == "paths" else 0
        each += EVIDENCE if s.consistency.by_evidence and s.consistency.kind != "none" else 0
        return super().memory(graph) + each * graph.num_nodes

    def prediction_memory(self, graph: Graph, samples: int) -> int:
        """Like every model, plus the evidence, if the calibrator reads it."""
        by = self.settings.calibrator
        reads = by is not None and issubclass(CALIBRATORS.get(by), DiffusionTemperature)
        return super().prediction_memory(graph, samples) + (EVIDENCE * graph.num_nodes if reads else 0)

    def state_width(self, graph: Graph) -> int:
        """d, for the classes of a graph."""
        return self.settings.hidden * (graph.num_classes if self.settings.state == "logits" else 1)

    def activations(self, graph: Graph) -> int:
        s = self.settings
        width, large = self.state_width(graph), graph.num_nodes * s.paths * 4 * s.encoder_width > LARGE_BYTES
        # for a large graph the hidden layer is computed block by block
        first = 4 * s.encoder_width if s.encoder == "mlp" and not large else 0
        return s.paths * (first + width * (6 + self._kept_states(graph)) + 6 * graph.num_classes)

    def _kept_states(self, graph: Graph) -> int:
        """States of a solve that are alive at once in a training step, beyond those of its two ends."""
        s, each = self.settings, DRIFTS.get(self.settings.drift.name).kept_states
        if self.keeps_no_states:
            return 0
        if s.gradients == "checkpoint" and graph.num_nodes * self.state_width(graph) * 4 > LARGE_BYTES:
            return 6 + 2 * math.isqrt(s.steps) + each  # a step's own graph, and few states before it
        return 2 * each * {"store": s.steps, "checkpoint": 2 * math.isqrt(s.steps) + 2, "reversible": 4}[s.gradients]

    @property
    def keeps_no_states(self) -> bool:
        """Whether the gradient needs no state between the first and the last: of a linear walk in unit steps."""
        s = self.settings
        plain = s.drift.name == "graph-filter" and s.drift.options.get("residual", "none") == "none"
        return (
            plain and s.solver.name == "euler" and s.steps == s.horizon and (s.noise_by == "marginals" or not s.sigma)
        )

    @property
    def has_parts(self) -> bool:
        """Whether it only multiplies by the graph's operator."""
        return "gat" not in (self.settings.drift.name, self.settings.drift.options.get("residual"))

    def working_memory(self, graph: Graph) -> int:
        """Bytes of a training step on all nodes, without what is kept between steps."""
        return 4 * graph.num_nodes * self.activations(graph)

    def with_settings(self, **settings: Any) -> Self:
        """A model like this one, with some settings changed."""
        return type(self)(**{**self._given, "preset": self.settings.preset, **settings})


def chunks(samples: int, floats_per_path: int) -> Iterator[tuple[range, int]]:
    """Equal groups of paths, the last one filled up: a path's bits must not depend on how many others are drawn,
    and matrix products of another shape may round differently."""
    size = max(1, min(8, CHUNK_FLOATS // max(1, floats_per_path)))
    for first in range(0, samples, size):
        yield range(first, first + size), min(size, samples - first)
