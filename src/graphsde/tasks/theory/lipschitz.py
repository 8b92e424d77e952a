r"""Certified constants of a fitted network: upper bounds that can't be wrong, none of them estimated.

The norm is that of the whole state, :math:`\|H\|^2 = \sum_{ik} H_{ik}^2` over all nodes and dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.drift import DiffusionDrift, GATDrift, GCNDrift, ReactionDrift, SecondOrderDrift
from graphsde.dynamics.field import Drift
from graphsde.dynamics.lipschitz import operator_norm_bound, spectral_norm_bound
from graphsde.dynamics.operators import smoothing_scale
from graphsde.errors import BadUsage
from graphsde.tasks.theory.noise import Noise, noise_of
from graphsde.tasks.theory.subject import Subject

SOFTMAX = 0.5
"""Lipschitz constant of softmax: its Jacobian J = diag(p) − ppᵀ has vᵀJv = Var_p(v) ≤ (max v − min v)²/4 ≤ ‖v‖²/2."""


@dataclass(frozen=True)
class Constants:
    """Everything that the right sides are made of.

    Args:
        l_f: of the drift in H.
        l_h_logits, l_h_probabilities: of the readout, from the state to the logits (before the temperature) and to the
            class probabilities (after it).
        source: κ, of the drift in H(0) where H(0) is also a source; 0 where it is not.
        l_g: of the diffusion in H; 0 for additive noise.
        power: q ≥ tr g gᵀ: what the noise adds to the total variance in a unit of time.
    """

    l_f: float
    l_h_logits: float
    l_h_probabilities: float
    source: float
    l_g: float
    power: float


def constants_of(subject: Subject) -> Constants:
    """The constants of a network on its graph, or a refusal where one of them is not known.

    Raises:
        BadUsage: the drift has no certified Lipschitz constant.
    """
    drift, adjacency = subject.module.drift, subject.inputs.adjacency
    l_f, source = drift.lipschitz(adjacency), source_lipschitz(drift, adjacency)
    if not (math.isfinite(l_f) and math.isfinite(source)):
        raise BadUsage(
            f"no Lipschitz constant is known for the drift '{drift.name}' as it is set here",
            code="E-SETTING",
            found=f"L_f = {l_f:g} in the state, {source:g} in the initial state",
            expected="a drift whose constant can be certified",
            fix="fit with --set drift.name=gcn (option spectral_bound limits its constant), or with "
            "drift.name=diffusion and attention=none",
        )
    logits = readout_lipschitz(subject)
    noise = noise_of(subject.module.diffusion, *subject.initial.shape[::2]) if subject.noisy else Noise(0.0, 0.0)
    return Constants(l_f, logits, logits * SOFTMAX / subject.temperature, source, noise.l_g, noise.power)


def readout_lipschitz(subject: Subject) -> float:
    """‖W‖ of the decoder, times ‖Â‖ for a graph convolution; relu never stretches."""
    module = subject.module
    bound = spectral_norm_bound(module.decoder.weight)
    if module.settings.decoder == "gcn":
        bound *= operator_norm_bound(subject.inputs.adjacency)
    return bound


def source_lipschitz(drift: Drift, adjacency: SparseMatrix) -> float:
    """κ: how much the drift at a fixed H changes with H(0); infinite where it is not known.

    A drift of your own may say it by a method ``source_lipschitz(adjacency)``.
    """
    own = getattr(drift, "source_lipschitz", None)
    if callable(own):
        return float(own(adjacency))
    if isinstance(drift, GCNDrift | GATDrift):
        return 0.0
    if isinstance(drift, SecondOrderDrift):
        return source_lipschitz(drift.force, adjacency)
    if not isinstance(drift, DiffusionDrift | ReactionDrift) or drift.flow.kind == "linear":
        return math.inf  # attention that is made from H(0)
    if isinstance(drift, ReactionDrift):
        return float(drift.strength.detach().abs().max()) if drift.reaction == "source" else 0.0
    if drift.source_operator == "smoothing":
        return abs(float(drift.source)) * smoothing_scale(adjacency) * operator_norm_bound(adjacency)
    return abs(float(drift.source))
