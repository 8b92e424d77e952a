"""Encoder, latent dynamics, decoder: the network of an LGNSDE."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry, unknown_name
from graphsde.models.lgnsde.settings import LGNSDESettings, Part
from graphsde.models.neural import Inputs
from graphsde.nn.layers import BatchNorm, Features, GraphConv, Linear, dropout
from graphsde.nn.mask_stream import MaskStream
from graphsde.nn.over_parts import mean_square, node_mean
from graphsde.nn.path_encoder import perceptron, projected
from graphsde.sde.brownian import BrownianMotion
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.integrate import Path, Save, integrate
from graphsde.sde.marginals import NOISE_CHANNELS, unit_variance
from graphsde.sde.prior import PRIORS
from graphsde.sde.solvers import SOLVERS

SIGNAL_MOMENTUM = 0.95
# nodes that differ by less than this share of their state don't differ
NO_SIGNAL = 1e-6
# paths of the unit noise whose root mean square estimates that of the process
PROBE_PATHS = 4


@dataclass(frozen=True)
class Noise:
    """Which Brownian paths drive a solve."""

    seed: int
    keys: Tensor  # [N]
    paths: Sequence[int]


@dataclass(frozen=True)
class Latent:
    """The latent state at the horizon, along with H(0) if the decoder reads that too, and the path KL and the log of
    prior over posterior density if requested."""

    state: Tensor  # [N, S, d], or [n, S, d] at some nodes
    kl: Tensor | None = None  # [S], summed over nodes and dimensions
    log_ratio: Tensor | None = None  # [S]


class PerceptronEncoder(nn.Module):
    """``W₂ drop(relu(W₁ x + b₁)) + b₂``, node by node."""

    def __init__(self, width: int, settings: LGNSDESettings, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = Linear(width, settings.encoder_width, generator)
        self.second = Linear(settings.encoder_width, outputs, generator)
        self.rate = settings.encoder_dropout

    def forward(self, x: Features) -> Tensor:
        """Without dropout, differentiable in ``x`` too.  # [N, F] -> [N, w]"""
        return self.second(torch.relu(self.first(x)))

    def of_paths(self, x: Features, feature_rate: float, masks: MaskStream | None, paths: int) -> Tensor:
        """As :func:`~graphsde.nn.path_encoder.perceptron`.  # [N, S, w] or [N, 1, w]"""
        assert self.first.bias is not None and self.second.bias is not None
        first, second = (self.first.weight, self.first.bias), (self.second.weight, self.second.bias)
        return perceptron(x, first, second, (feature_rate, self.rate), masks, paths)


class LGNSDEModule(nn.Module):
    """The network; randomness comes in through arguments only.

    ``signal`` is the running root mean square of the noise-free state at the horizon, ``gain`` what the unit noise is
    multiplied by, ``log_temperature`` the calibration fitted after training.
    """

    signal: Tensor
    gain: Tensor
    log_temperature: Tensor

    def __init__(self, width: int, classes: int, settings: LGNSDESettings, generator: torch.Generator) -> None:
        super().__init__()
        self.settings, self.classes = settings, classes
        hidden = self.width = settings.hidden * (classes if settings.state == "logits" else 1)
        self.encoder: nn.Module
        if settings.encoder == "mlp":
            self.encoder = PerceptronEncoder(width, settings, hidden, generator)
        else:
            self.encoder = (Linear if settings.encoder == "linear" else GraphConv)(width, hidden, generator)
        self.norm = BatchNorm(hidden) if settings.encoder_norm == "batch" else None
        self.drift = make_part(DRIFTS, settings.drift, hidden, generator=generator)
        self.solver = make_part(SOLVERS, settings.solver)
        self.prior = make_part(PRIORS, settings.prior, hidden)
        # relative noise is simulated at unit scale and multiplied afterwards
        sigma = 1.0 if settings.sigma_is == "ratio" else settings.sigma
        self.diffusion = make_part(DIFFUSIONS, settings.diffusion, hidden, sigma=sigma)
        self.decoder: Linear | None = None
        if settings.state == "wide":
            read = 2 * hidden if settings.ego else hidden
            self.decoder = (Linear if settings.decoder == "linear" else GraphConv)(read, classes, generator)
        for buffer in ("signal", "gain", "log_temperature"):
            self.register_buffer(buffer, torch.zeros(()))
        self._unit_level: float | None = None
        if settings.noise_by == "marginals" and settings.sigma > 0:
            self._check_marginals()
        elif settings.sigma_is == "ratio" and settings.sigma > 0:
            self._check_superposition()

    @property
    def noisy(self) -> bool:
        return self.settings.sigma > 0

    def initial(self, inputs: Inputs, paths: int, masks: MaskStream | None) -> Tensor:
        """H(0): in training a new set of masks per path, otherwise one state for all.  # [N, S, d] or [N, 1, d]"""
        s = self.settings
        h = self._encoded(inputs, paths, masks)
        if s.encoder_activation == "relu":
            h = torch.relu(h)
        if masks is None:
            return h if self.norm is None else self.norm(h.squeeze(1)).unsqueeze(1)
        if self.norm is not None:  # statistics are those of one path
            h = torch.stack([self.norm(one) for one in h.expand(-1, paths, -1).unbind(1)], dim=1)
        if s.node_dropout > 0:
            h = h * masks.keep((h.shape[0], paths, 1), s.node_dropout, h.dtype).to(h.device)
        if s.latent_dropout > 0:
            h = dropout(h.expand(-1, paths, -1), s.latent_dropout, masks)  # type: ignore[assignment]
        return h.expand(-1, paths, -1).contiguous()

    def _encoded(self, inputs: Inputs, paths: int, masks: MaskStream | None) -> Tensor:
        """The encoder's output.  # [N, S, d] or [N, 1, d]"""
        rate, x = self.settings.feature_dropout, inputs.features
        if masks is None and torch.is_grad_enabled():  # the gradient of the features may be needed
            made = self.encoder(x, inputs.adjacency) if isinstance(self.encoder, GraphConv) else self.encoder(x)
            return made.unsqueeze(1)
        if isinstance(self.encoder, PerceptronEncoder):
            return self.encoder.of_paths(x, rate, masks, paths)
        assert isinstance(self.encoder, Linear)
        made = projected(x, self.encoder.weight, rate, masks, paths).transpose(0, 1)  # [N, S, d]
        if isinstance(self.encoder, GraphConv):
            made = (inputs.adjacency @ made.reshape(made.shape[0], -1)).view(made.shape)
        return made if self.encoder.bias is None else made + self.encoder.bias

    def evolve(
        self,
        inputs: Inputs,
        noise: Noise,
        masks: MaskStream | None,
        *,
        kl: bool = False,
        log_ratio: bool = False,
        unit: Tensor | None = None,
        rows: Tensor | None = None,
        initial: Tensor | None = None,
    ) -> Latent:
        """From the graph to the latent state at the horizon, for the paths of ``noise``.

        ``unit`` is their :meth:`unit_noise` and ``initial`` H(0) where the caller has them already; with ``rows`` the
        state is wanted at those nodes alone.
        """
        initial = self.initial(inputs, len(noise.paths), masks) if initial is None else initial
        marginal = self.settings.noise_by == "marginals" and self.noisy
        if not self.noisy:
            latent = Latent(self._flow(inputs, initial, masks).final)
        elif marginal or self.settings.sigma_is == "ratio":
            latent = self._around_mean(inputs, noise, initial, masks, kl=kl, unit=unit, rows=rows)
        else:
            # without full rank the KL can't be computed from the difference of drifts, but perhaps in closed form
            closed = kl and not self.diffusion.full_rank and self.drift.closed_kl(self.prior, self.diffusion)
            path = self.trajectory(inputs, noise, initial, masks, kl=kl and not closed)
            latent = Latent(path.final, self._closed_kl(initial, self.settings.sigma) if closed else path.kl)
        if log_ratio:
            latent = replace(latent, log_ratio=self._log_ratio(inputs, noise, initial))
        state = latent.state if rows is None or marginal else latent.state[rows]
        return replace(latent, state=self.beside(state, initial if rows is None else initial[rows]))

    def beside(self, state: Tensor, initial: Tensor) -> Tensor:
        """The decoder's input: H(T), followed by H(0) if set.  # [n, S, d] or [n, S, 2d]"""
        if not self.settings.ego:
            return state
        return torch.cat([state, initial.expand(-1, state.shape[1], -1)], dim=-1)

    def trajectory(
        self,
        inputs: Inputs,
        noise: Noise,
        initial: Tensor,
        masks: MaskStream | None = None,
        *,
        kl: bool = False,
        save: Save = "last",
    ) -> Path:
        """The stochastic equation itself, step by step."""
        s = self.settings
        if initial.shape[1] != len(noise.paths):
            initial = initial.expand(-1, len(noise.paths), -1).contiguous()
        gain = float(self.gain) if s.sigma_is == "ratio" else 1.0
        return self._solved(inputs, noise, initial, gain, masks, kl=kl, save=save)

    def _solved(
        self,
        inputs: Inputs,
        noise: Noise | None,
        initial: Tensor,
        gain: float = 0.0,
        masks: MaskStream | None = None,
        *,
        kl: bool = False,
        save: Save = "last",
    ) -> Path:
        """The solution with noise scaled by ``gain``, or without noise."""
        s, bound, motion = self.settings, None, None
        if noise is not None:
            self.diffusion.set_gain(gain)
            bound = self.diffusion.bind(inputs.adjacency)
            keys = bound.keys(noise.keys)
            motion = BrownianMotion(noise.seed, keys, noise.paths, self.width, s.horizon, s.steps, initial.dtype)
        return integrate(
            self.drift.bind(inputs.adjacency, initial, None if masks is None else masks.generator),
            initial,
            horizon=s.horizon,
            steps=s.steps,
            solver=self.solver,
            diffusion=bound,
            noise_kind=self.diffusion.noise,
            brownian=motion,
            prior=self.prior.bind(inputs.adjacency, initial) if kl else None,
            gradients=s.gradients,
            save=save,
        )

    def unit_noise(self, inputs: Inputs, noise: Noise) -> Tensor:
        """The response to unit noise at the horizon, from 0: with a linear drift it adds to the mean path, whatever
        the parameters are.  # [N, S, d]"""
        with torch.no_grad():
            zero = torch.zeros(len(noise.keys), len(noise.paths), self.width, device=noise.keys.device)
            return self._solved(inputs, noise, zero, 1.0).final

    def decode(self, inputs: Inputs, state: Tensor, masks: MaskStream | None = None) -> Tensor:
        """Logits of every path, from what :meth:`evolve` gives.  # [N, S, d] -> [N, S, C]"""
        if self.decoder is None:
            blocks = state.reshape(*state.shape[:2], -1, self.classes)
            return blocks.squeeze(2) if blocks.shape[2] == 1 else blocks.sum(2)
        h = torch.relu(state) if self.settings.decoder_activation == "relu" else state
        h = dropout(h, self.settings.decoder_dropout, masks)  # type: ignore[assignment]
        flat = h.reshape(-1, h.shape[-1])
        if self.settings.decoder == "linear":
            return self.decoder(flat).view(*h.shape[:2], -1)
        projected = (flat @ self.decoder.weight).view(h.shape[0], -1)
        return (inputs.adjacency @ projected).view(*h.shape[:2], -1).add(self.decoder.bias)  # type: ignore[arg-type]

    def decode_at(self, inputs: Inputs, state: Tensor, rows: Tensor, masks: MaskStream | None = None) -> Tensor:
        """:meth:`decode` at some nodes, without the others if the decoder needs none.  # [N, S, d] -> [n, S, C]"""
        if self.by_node:
            return self.decode(inputs, state[rows], masks)
        return self.decode(inputs, state, masks)[rows]

    @property
    def by_node(self) -> bool:
        """Whether the decoder acts on each node alone."""
        return self.decoder is None or self.settings.decoder == "linear"

    def _flow(self, inputs: Inputs, initial: Tensor, masks: MaskStream | None) -> Path:
        """The noise-free equation."""
        return self._solved(inputs, None, initial, masks=masks)

    def _around_mean(
        self,
        inputs: Inputs,
        noise: Noise,
        initial: Tensor,
        masks: MaskStream | None,
        *,
        kl: bool,
        unit: Tensor | None,
        rows: Tensor | None,
    ) -> Latent:
        """Mean path plus noise: the drift is linear, so both are computed separately, and the noise needs no gradient.

        By marginals each node's noise is drawn from its own Gaussian: if nodes are decoded one by one, nothing else
        matters.
        """
        mean = self._flow(inputs, initial, masks).final
        if masks is not None:
            self._learn_signal(inputs, noise, mean)
        if self.settings.noise_by == "marginals":
            state = self.around(inputs, mean, noise, rows)
        else:
            state = mean + self.gain * (self.unit_noise(inputs, noise) if unit is None else unit)
        return Latent(state, self._closed_kl(initial, self._amount()) if kl else None)

    def around(
        self, inputs: Inputs, mean: Tensor, noise: Noise, rows: Tensor | None = None, deviation: Tensor | None = None
    ) -> Tensor:
        """States from their exact law at the horizon; a draw is a function of seed, path and node key alone.

        ``deviation`` is :meth:`unit_deviation` if the caller already has it.  # [N, 1 or S, d] -> [N or n, S, d]
        """
        deviation = self.unit_deviation(inputs) if deviation is None else deviation
        keys = noise.keys
        if rows is not None:
            mean, deviation, keys = mean[rows], deviation[rows], keys[rows]
        drawn = BrownianMotion(noise.seed, keys, noise.paths, self.width, 1.0, 1, mean.dtype).cell_increment(0)
        return mean + self._amount() * deviation[:, None] * drawn

    def unit_deviation(self, inputs: Inputs) -> Tensor:
        """Standard deviation of every node's state under unit noise.  # [N, d]"""
        kappa = self.drift.coefficients()
        assert kappa is not None
        kappa = kappa.to(inputs.adjacency.values)
        return unit_variance(inputs.adjacency, kappa, self.settings.steps, channel=self.diffusion.channel).sqrt()

    def _amount(self) -> Tensor | float:
        """What unit noise is multiplied by."""
        return self.gain if self.settings.sigma_is == "ratio" else self.settings.sigma

    def _log_ratio(self, inputs: Inputs, noise: Noise, initial: Tensor) -> Tensor:
        """ln dP/dQ of every path, prior over posterior: −u·W(T) − ½T‖u‖², u the control over g (Girsanov).  # [S]"""
        amount = self._amount()
        if float(amount) == 0.0:
            return initial.new_zeros(len(noise.paths))
        s, keys = self.settings, self.diffusion.bind(inputs.adjacency).keys(noise.keys)
        motion = BrownianMotion(noise.seed, keys, noise.paths, self.width, s.horizon, s.steps, initial.dtype)
        control = self.drift.control(initial) / amount
        turned = (control * motion.increment(0, s.steps).dw).sum(dim=(0, 2))
        return -turned - 0.5 * s.horizon * control.square().sum(dim=(0, 2))

    def _closed_kl(self, initial: Tensor, g: Tensor | float) -> Tensor:
        """Path KL if the posterior differs from the prior only by a control, through the channel of the noise.  # [S]

        If all nodes are in one state there is no signal, hence no noise relative to it, and no penalty.
        """
        if float(g) == 0.0:
            return initial.new_zeros(initial.shape[1])
        control = self.drift.control(initial) / g
        return 0.5 * self.settings.horizon * control.square().sum(dim=(0, 2))

    def _learn_signal(self, inputs: Inputs, noise: Noise, mean: Tensor) -> None:
        """From a mean path in training; if the signal is that of prediction, only until the first validation."""
        if self.settings.sigma_is != "ratio":
            return
        with torch.no_grad():
            level, first = signal_level(mean), bool(self.signal == 0)
            if self.settings.signal == "prediction":
                if first:
                    self._set_signal(inputs, noise, level)
                return
            level = level if first else SIGNAL_MOMENTUM * self.signal + (1 - SIGNAL_MOMENTUM) * level
            self._set_signal(inputs, noise, level)

    def mean_path(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """H(0) and H(T) without noise or dropout.  # [N, 1, d] each"""
        initial = self.initial(inputs, 1, None)
        return initial, self._flow(inputs, initial, None).final

    def measure_signal(self, inputs: Inputs, noise: Noise, mean: Tensor | None = None) -> None:
        """Scale the noise so that sigma is the noise-to-signal ratio at the horizon of predictions.

        ``mean`` is the second of :meth:`mean_path` if the caller already has it.
        """
        if self.noisy and self.settings.sigma_is == "ratio" and self.settings.signal == "prediction":
            with torch.no_grad():
                mean = self.mean_path(inputs)[1] if mean is None else mean
                self._set_signal(inputs, noise, signal_level(mean))

    def _set_signal(self, inputs: Inputs, noise: Noise, level: Tensor) -> None:
        self.signal.copy_(level)
        self.gain.copy_(self.settings.sigma * self.signal / self.unit_level(inputs, noise))

    def unit_level(self, inputs: Inputs, noise: Noise) -> float:
        """Root mean square of the unit noise over nodes and dimensions; cached if it depends on nothing learned."""
        if self.settings.noise_by == "marginals":
            return float(mean_square(self.unit_deviation(inputs)).sqrt())
        if self._unit_level is None:
            probes = Noise(noise.seed, noise.keys, range(PROBE_PATHS))
            self._unit_level = float(mean_square(self.unit_noise(inputs, probes)).sqrt())
        return self._unit_level

    def _check_marginals(self) -> None:
        """Exact marginals need a linear drift with a known filter, noise through a known channel, unit Euler steps, and
        a decoder that acts on each node alone."""
        s = self.settings
        known = self.drift.coefficients() is not None and self.diffusion.channel in NOISE_CHANNELS
        plain = s.solver.name == "euler" and s.steps == s.horizon and not list(self.diffusion.parameters())
        if not (known and plain and self.by_node) or s.objective == "importance":
            raise BadUsage(
                "the marginals of these dynamics have no closed form",
                code="E-SETTING",
                expected="drift 'graph-filter' or 'graph-heat' without a learned rest or attention, diffusion "
                "'constant' or 'smoothed', solver 'euler' with steps of length one, a decoder that acts on each node "
                "alone, an objective that needs no joint paths",
                fix="set noise_by=paths",
            )
        if s.kl_weight > 0 and not self.drift.closed_kl(self.prior, self.diffusion):
            raise no_closed_kl()

    def _check_superposition(self) -> None:
        """Simulating mean and noise separately needs linearity, and noise that stays the same during training."""
        s, drift = self.settings, self.drift
        if not drift.linear or self.diffusion.noise != "additive":
            raise BadUsage(
                "sigma as a noise-to-signal ratio needs a linear drift and additive noise, not drift "
                f"'{s.drift.name}' with diffusion '{s.diffusion.name}'",
                code="E-SETTING",
                fix="set sigma_is=absolute and diffusion=constant, or use drift 'graph-heat' without attention",
            )
        learned = [f"diffusion '{s.diffusion.name}'"] if list(self.diffusion.parameters()) else []
        learned += [f"the rate of drift '{s.drift.name}'"] if drift.learns_rate else []
        if learned:
            raise BadUsage(
                f"{' and '.join(learned)} can't be learned if sigma is a noise-to-signal ratio: the noise is then "
                "scaled to the signal anyway",
                code="E-SETTING",
                fix="set sigma_is=absolute and a diffusion of full rank ('constant', 'learned'), or learn neither",
            )
        if s.kl_weight > 0 and not drift.closed_kl(self.prior, self.diffusion):
            raise no_closed_kl()


def signal_level(mean: Tensor) -> Tensor:
    """Root mean square of the states around their mean over nodes; 0 if only rounding is left.  # [N, S, d] -> []"""
    level = mean_square(mean - node_mean(mean)).sqrt()
    return level if level > NO_SIGNAL * mean_square(mean).sqrt() else torch.zeros_like(level)


def no_closed_kl() -> BadUsage:
    return BadUsage(
        "the path KL has no closed form for this drift, prior and diffusion",
        code="E-KL",
        expected="for drift 'graph-heat': rate 1, the symmetric operator, prior 'graph-ou' with the same "
        "teleport, and the source through the noise's channel (source_operator 'smoothing' for 'smoothed', "
        "'identity' for 'constant'); for another drift: closed_kl",
        fix="set kl_weight=0, or sigma_is=absolute and diffusion=constant",
    )


def make_part(registry: Registry[Any], part: Part, *width: int, **given: object) -> Any:
    """A part from its name and options; the error for a wrong option lists the valid ones."""
    cls = registry.get(part.name)
    known = [name for name in inspect.signature(cls).parameters if name not in ("width", *given)]
    for name in part.options:
        if name not in known:
            raise unknown_name(f"option of {registry.kind} '{part.name}'", name, known)
    return cls(*width, **part.options, **given)
