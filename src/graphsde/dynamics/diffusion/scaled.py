"""What all diffusions share: σ, a gain, and how to see that they are off."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.dynamics.arguments import number
from graphsde.dynamics.field import Diffusion


class ScaledDiffusion(Diffusion):
    """Base of the diffusions here: g is proportional to ``gain``, a buffer that a model may set.

    A model that wants σ relative to the scale of its hidden state measures that scale in training and sets the gain;
    the gain is saved with the model. A bound diffusion keeps the gain that it was bound with.
    """

    gain: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gain", torch.ones((), dtype=torch.float64))

    def set_gain(self, value: float) -> None:
        """Multiply g by ``value`` ≥ 0 from the next :meth:`bind` on."""
        self.gain.fill_(number(value, "gain", at_least=0.0))

    @property
    def is_zero(self) -> bool:
        """There is no noise: the equation is an ordinary one and has no path KL."""
        return float(self.gain) == 0.0
