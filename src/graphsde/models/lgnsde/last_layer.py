"""What the last layer of an LGNSDE reads at each node, as the features of a Bayesian linear model."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.base.scratch import scratch_tensor
from graphsde.base.seeds import torch_stream
from graphsde.base.world import world
from graphsde.graph.sparse import LARGE_BYTES, SparseMatrix
from graphsde.models.lgnsde.module import LGNSDEModule, PerceptronEncoder
from graphsde.models.neural import Inputs
from graphsde.nn.layers import Features

FEW_COLUMNS = 16
"""Columns of a large graph that are filtered at once."""
MOST_FEATURES = 256
"""Maximum columns of a block; more are projected on this many random directions, which keeps angles to about 1/16."""


def last_layer_features(module: LGNSDEModule, inputs: Inputs) -> Tensor | None:
    """ψ without noise or dropout, a row per node; ``None`` if the last layer is not linear in such features.

    A wide state is read by the decoder: ψ = relu(H(T)), along with H(0) if the decoder reads that too. A state
    of logits is P(φW + b) with P the drift's linear filter, so that ψ = Pφ: φ is the perceptron's hidden layer, or the
    features themselves of a linear encoder, and every block of logits has its own filter (if coefficients are
    learned per class, by their mean over the classes).  # [N, d]
    """
    with torch.no_grad():
        if module.decoder is not None:
            return _of_a_wide_state(module, inputs) if module.by_node else None
        kappas = module.drift.coefficients()
        if kappas is None:
            return None
        phi = _projected(_hidden(module, inputs))
        if module.settings.encoder == "gcn":
            phi = inputs.adjacency @ phi
        means = kappas.detach().cpu().double().reshape(module.settings.hidden, -1).mean(1)
        return torch.cat([_filtered(module, inputs.adjacency, phi, kappa) for kappa in means.tolist()], dim=1)


def _of_a_wide_state(module: LGNSDEModule, inputs: Inputs) -> Tensor:
    initial, final = module.mean_path(inputs)
    state = module.beside(final, initial)[:, 0]
    return _projected(torch.relu(state) if module.settings.decoder_activation == "relu" else state)


def _hidden(module: LGNSDEModule, inputs: Inputs) -> Features:
    if isinstance(module.encoder, PerceptronEncoder):
        return torch.relu(module.encoder.first(inputs.features))
    return inputs.features


def _projected(features: Features) -> Tensor:
    width = features.shape[1]
    if width > MOST_FEATURES:
        # the same directions for every graph and seed: a posterior is saved, they are not
        directions = torch.randn(width, MOST_FEATURES, generator=torch_stream(0, "last-layer features", width))
        return features @ (directions / MOST_FEATURES**0.5).to(features.device)
    return features @ torch.eye(width, device=features.device) if isinstance(features, SparseMatrix) else features


def _filtered(module: LGNSDEModule, adjacency: SparseMatrix, phi: Tensor, kappa: float) -> Tensor:
    """The drift's mean path for all columns alike; in blocks if there are many nodes."""
    if world().parts * phi.numel() * phi.element_size() <= LARGE_BYTES or phi.shape[1] <= FEW_COLUMNS:
        return _walked(module, adjacency, phi, kappa)
    out = (
        scratch_tensor(phi.shape, phi.dtype, parts=world().parts) if phi.device.type == "cpu" else torch.empty_like(phi)
    )
    for first in range(0, phi.shape[1], FEW_COLUMNS):
        some = slice(first, first + FEW_COLUMNS)
        out[:, some] = _walked(module, adjacency, phi[:, some].contiguous(), kappa)
    return out


def _walked(module: LGNSDEModule, adjacency: SparseMatrix, phi: Tensor, kappa: float) -> Tensor:
    """H ← H + Δ(κÂH − H + (1 − |κ|)φ)."""
    length = module.settings.horizon / module.settings.steps
    state, source = phi, (1.0 - abs(kappa)) * phi
    for _ in range(module.settings.steps):
        state = state + length * (kappa * (adjacency @ state) - state + source)
    return state
