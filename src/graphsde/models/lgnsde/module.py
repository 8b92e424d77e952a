"""Encoder, latent dynamics, decoder: the network of an LGNSDE."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry, unknown_name
from graphsde.models.lgnsde.settings import LGNSDESettings, Part
from graphsde.models.neural import Inputs
from graphsde.nn.layers import GraphConv, Linear, dropout
from graphsde.sde.brownian import BrownianMotion
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.integrate import Path, Save, integrate
from graphsde.sde.prior import PRIORS
from graphsde.sde.solvers import SOLVERS

SIGNAL_MOMENTUM = 0.95
# nodes that differ by less than this share of their state don't differ
NO_SIGNAL = 1e-6
# paths of the unit noise whose root mean square stands for that of the process
PROBE_PATHS = 4


@dataclass(frozen=True)
class Noise:
    """Which Brownian paths drive a solve."""

    seed: int
    keys: Tensor  # [N]
    paths: Sequence[int]


@dataclass(frozen=True)
class Latent:
    """The latent state at the horizon and the path KL where it was asked for."""

    state: Tensor  # [N, S, d]
    kl: Tensor | None = None  # [S], summed over nodes and dimensions


class LGNSDEModule(nn.Module):
    """The network; randomness comes in through arguments only.

    ``signal`` is the running root mean square of the noise-free state at the horizon, ``gain`` what the unit noise is
    multiplied with, ``log_temperature`` the calibration fitted after training.
    """

    signal: Tensor
    gain: Tensor
    log_temperature: Tensor

    def __init__(self, width: int, classes: int, settings: LGNSDESettings, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        hidden = settings.hidden
        self.encoder = (Linear if settings.encoder == "linear" else GraphConv)(width, hidden, generator)
        self.drift = make_part(DRIFTS, settings.drift, hidden, generator=generator)
        self.prior = make_part(PRIORS, settings.prior, hidden)
        # relative noise is simulated at unit scale and multiplied afterwards
        sigma = 1.0 if settings.sigma_is == "ratio" else settings.sigma
        self.diffusion = make_part(DIFFUSIONS, settings.diffusion, hidden, sigma=sigma)
        self.decoder = (Linear if settings.decoder == "linear" else GraphConv)(hidden, classes, generator)
        for buffer in ("signal", "gain", "log_temperature"):
            self.register_buffer(buffer, torch.zeros(()))
        self._unit_level: float | None = None
        if settings.sigma_is == "ratio":
            self._check_superposition()

    @property
    def noisy(self) -> bool:
        return self.settings.sigma > 0

    def initial(self, inputs: Inputs, paths: int, generator: torch.Generator | None) -> Tensor:
        """H(0): in training a fresh set of masks per path, otherwise one state for all.  # [N, S, d] or [N, 1, d]"""
        if generator is None:
            return self._encode(inputs, None).unsqueeze(1)
        return torch.stack([self._encode(inputs, generator) for _ in range(paths)], dim=1)

    def _encode(self, inputs: Inputs, generator: torch.Generator | None) -> Tensor:
        s = self.settings
        x = dropout(inputs.features, s.feature_dropout, generator)
        h = self.encoder(x) if s.encoder == "linear" else self.encoder(x, inputs.adjacency)
        if s.encoder_activation == "relu":
            h = torch.relu(h)
        if generator is not None and s.node_dropout > 0:
            h = h * dropout(torch.ones(h.shape[0], 1, dtype=h.dtype), s.node_dropout, generator)
        return dropout(h, s.latent_dropout, generator)  # type: ignore[return-value]

    def evolve(
        self,
        inputs: Inputs,
        noise: Noise,
        generator: torch.Generator | None,
        *,
        kl: bool = False,
        unit: Tensor | None = None,
    ) -> Latent:
        """From the graph to the latent state at the horizon, for the paths of ``noise``.

        ``unit`` is their :meth:`unit_noise` where the caller has it already.
        """
        initial = self.initial(inputs, len(noise.paths), generator)
        if not self.noisy:
            return Latent(self._flow(inputs, initial, generator).final)
        if self.settings.sigma_is == "ratio":
            return self._superpose(inputs, noise, initial, generator, kl=kl, unit=unit)
        # under noise without full rank the KL can't be had from the difference of drifts, but perhaps in closed form
        closed = kl and not self.diffusion.full_rank and self.drift.closed_kl(self.prior, self.diffusion)
        path = self.trajectory(inputs, noise, initial, generator, kl=kl and not closed)
        return Latent(path.final, self._closed_kl(initial, self.settings.sigma) if closed else path.kl)

    def trajectory(
        self,
        inputs: Inputs,
        noise: Noise,
        initial: Tensor,
        generator: torch.Generator | None = None,
        *,
        kl: bool = False,
        save: Save = "last",
    ) -> Path:
        """The stochastic equation itself, step by step."""
        s = self.settings
        if initial.shape[1] != len(noise.paths):
            initial = initial.expand(-1, len(noise.paths), -1).contiguous()
        gain = float(self.gain) if s.sigma_is == "ratio" else 1.0
        return self._solved(inputs, noise, initial, gain, generator, kl=kl, save=save)

    def _solved(
        self,
        inputs: Inputs,
        noise: Noise | None,
        initial: Tensor,
        gain: float = 0.0,
        generator: torch.Generator | None = None,
        *,
        kl: bool = False,
        save: Save = "last",
    ) -> Path:
        """The solution under noise of which there is ``gain`` times as much as the diffusion says, or under none."""
        s, bound, motion = self.settings, None, None
        if noise is not None:
            self.diffusion.set_gain(gain)
            bound = self.diffusion.bind(inputs.adjacency)
            keys = bound.keys(noise.keys)
            motion = BrownianMotion(noise.seed, keys, noise.paths, s.hidden, s.horizon, s.steps, initial.dtype)
        return integrate(
            self.drift.bind(inputs.adjacency, initial, generator),
            initial,
            horizon=s.horizon,
            steps=s.steps,
            solver=make_part(SOLVERS, s.solver),
            diffusion=bound,
            noise_kind=self.diffusion.noise,
            brownian=motion,
            prior=self.prior.bind(inputs.adjacency, initial) if kl else None,
            gradients=s.gradients,
            save=save,
        )

    def unit_noise(self, inputs: Inputs, noise: Noise) -> Tensor:
        """What unit noise alone becomes at the horizon, from 0: with a linear drift it adds to the mean path, whatever
        the parameters are.  # [N, S, d]"""
        with torch.no_grad():
            zero = torch.zeros(inputs.adjacency.shape[0], len(noise.paths), self.settings.hidden)
            return self._solved(inputs, noise, zero, 1.0).final

    def decode(self, inputs: Inputs, state: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits of every path.  # [N, S, d] -> [N, S, C]"""
        h = torch.relu(state) if self.settings.decoder_activation == "relu" else state
        h = dropout(h, self.settings.decoder_dropout, generator)  # type: ignore[assignment]
        flat = h.reshape(-1, h.shape[-1])
        if self.settings.decoder == "linear":
            return self.decoder(flat).view(*h.shape[:2], -1)
        projected = (flat @ self.decoder.weight).view(h.shape[0], -1)
        return (inputs.adjacency @ projected).view(*h.shape[:2], -1).add(self.decoder.bias)  # type: ignore[arg-type]

    def decode_at(
        self, inputs: Inputs, state: Tensor, rows: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """:meth:`decode` at some nodes, without the others where the decoder needs none.  # [N, S, d] -> [n, S, C]"""
        if self.settings.decoder == "linear":
            return self.decode(inputs, state[rows], generator)
        return self.decode(inputs, state, generator)[rows]

    def _flow(self, inputs: Inputs, initial: Tensor, generator: torch.Generator | None) -> Path:
        """The noise-free equation."""
        return self._solved(inputs, None, initial, generator=generator)

    def _superpose(
        self,
        inputs: Inputs,
        noise: Noise,
        initial: Tensor,
        generator: torch.Generator | None,
        *,
        kl: bool,
        unit: Tensor | None,
    ) -> Latent:
        """Mean path plus scaled noise: the drift is linear, so both can be had apart; the noise needs no gradient."""
        mean = self._flow(inputs, initial, generator).final
        if generator is not None:
            self._learn_signal(inputs, noise, mean)
        state = mean + self.gain * (self.unit_noise(inputs, noise) if unit is None else unit)
        return Latent(state, self._closed_kl(initial, self.gain) if kl else None)

    def _closed_kl(self, initial: Tensor, g: Tensor | float) -> Tensor:
        """Where the posterior differs from the prior by a control alone, through the channel of the noise.  # [S]

        Where all nodes are in one state there is no signal, hence no noise relative to it, and nothing to hold back.
        """
        if float(g) == 0.0:
            return initial.new_zeros(initial.shape[1])
        control = self.drift.control(initial) / g
        return 0.5 * self.settings.horizon * control.square().sum(dim=(0, 2))

    def _learn_signal(self, inputs: Inputs, noise: Noise, mean: Tensor) -> None:
        with torch.no_grad():
            centred = mean - mean.mean(dim=0, keepdim=True)
            level = centred.square().mean().sqrt()
            if level <= NO_SIGNAL * mean.square().mean().sqrt():
                level = torch.zeros_like(level)  # rounding
            first = bool(self.signal == 0)
            self.signal.copy_(level if first else SIGNAL_MOMENTUM * self.signal + (1 - SIGNAL_MOMENTUM) * level)
            self.gain.copy_(self.settings.sigma * self.signal / self.unit_level(inputs, noise))

    def unit_level(self, inputs: Inputs, noise: Noise) -> float:
        """Root mean square over nodes and dimensions of :meth:`unit_noise`, once: it depends on graph and settings."""
        if self._unit_level is None:
            probes = Noise(noise.seed, noise.keys, range(PROBE_PATHS))
            self._unit_level = float(self.unit_noise(inputs, probes).square().mean().sqrt())
        return self._unit_level

    def _check_superposition(self) -> None:
        """Simulating mean and noise apart needs linearity, and noise that is the same throughout the training."""
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
                f"{' and '.join(learned)} can't be learned where sigma is a noise-to-signal ratio: the noise is then "
                "scaled to the signal, whatever it was",
                code="E-SETTING",
                fix="set sigma_is=absolute and a diffusion of full rank ('constant', 'learned'), or learn neither",
            )
        if s.kl_weight > 0 and not drift.closed_kl(self.prior, self.diffusion):
            raise BadUsage(
                "the path KL has no closed form for this drift, prior and diffusion",
                code="E-KL",
                expected="of drift 'graph-heat' rate 1, the symmetric operator, prior 'graph-ou' with the same "
                "teleport, and the source through the noise's channel (source_operator 'smoothing' for 'smoothed', "
                "'identity' for 'constant'); of another drift that it says closed_kl",
                fix="set kl_weight=0, or sigma_is=absolute and diffusion=constant",
            )


def make_part(registry: Registry[Any], part: Part, *width: int, **given: object) -> Any:
    """A part from its name and options; a wrong option is answered with the right ones."""
    cls = registry.get(part.name)
    known = [name for name in inspect.signature(cls).parameters if name not in ("width", *given)]
    for name in part.options:
        if name not in known:
            raise unknown_name(f"option of {registry.kind} '{part.name}'", name, known)
    return cls(*width, **part.options, **given)
