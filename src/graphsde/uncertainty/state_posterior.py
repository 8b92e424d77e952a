r"""How well the training nodes determine a node's logits: a Bayesian linear model over the last layer's features.

Write :math:`\psi_i` for what the last layer reads at node i, c for its mean over the training nodes, and

.. math:: f_i = (\psi_i - c) / \|\psi_i - c\|, \qquad k(i, j) = f_i \cdot f_j.

Each class's calibrated logit has the prior N(0, s²) at every node and the covariance s² k between nodes: before any
label all nodes are equally unknown. A training node observes it with the precision β, the curvature of the softmax
(Laplace's approximation, with one curvature for all). The posterior variance is

.. math::
    v_i = s^2 \bigl[1 - \|f_i\|^2 + f_i^\top (I + \beta s^2 F^\top F)^{-1} f_i\bigr]
        = s^2 \bigl[1 - k_i^\top (K + I / (\beta s^2))^{-1} k_i\bigr],

F the rows f of the training nodes, K and k_i their kernel among themselves and with i. Both forms are equal by the
matrix inversion lemma; the first costs the square of the width, whatever the number of training nodes. A further
training node adds a positive semidefinite term to FᵀF, so that no v_i rises.

Why f and not ψ: with rectified features a node that excites no unit has a short ψ. Its variance would be small for lack
of any signal, which is backwards: on Cora with four of seven classes left out, v of the plain ψ ranks
out-of-distribution nodes below the others (AUROC .21), v of f above them (.90).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from graphsde.base.arguments import number
from graphsde.base.errors import BadInput, BadUsage
from graphsde.nn.over_parts import node_mean, total

_ROWS_AT_ONCE = 50_000
# of the centre's length: points within rounding of it have no direction
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class StatePosterior:
    """Posterior over the logits of every node, given which nodes were trained on.

    Args:
        centre: c, the mean of ψ over the training nodes.  # [d]
        gram: FᵀF.  # [d, d]
        prior: s², the variance of a calibrated logit before any label.
        curvature: β, the precision that one label adds.

    Example:
        >>> import torch
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
        >>> known = StatePosterior.of(features, torch.tensor([0, 2]), prior=4.0, curvature=0.25)
        >>> [round(v, 2) for v in known.variance(features).tolist()]
        [1.33, 4.0, 1.33]
    """

    centre: Tensor
    gram: Tensor
    prior: float
    curvature: float

    @classmethod
    def of(
        cls, features: Tensor, rows: Tensor, *, prior: float, curvature: float, centre: Tensor | None = None
    ) -> Self:
        """From the training nodes.

        Args:
            features: ψ of all nodes, or of some that hold the training nodes.  # [N, d]
            rows: positions of the training nodes.  # [n] int64
            prior, curvature: s² and β.
            centre: instead of the training nodes' mean.  # [d]
        """
        number(prior, "prior", at_least=0.0)
        number(curvature, "curvature", at_least=0.0)
        some = rows.split(_ROWS_AT_ONCE) or (rows,)
        if centre is None:
            if len(some) == 1:
                centre = node_mean(features[rows].double())
            else:
                summed = torch.stack([features[few].double().sum(0) for few in some]).sum(0)
                centre = total(summed) / total(len(rows))
        gram = torch.zeros(())
        for few in some:
            directions = _directions(features[few].double(), centre)
            gram = directions.T @ directions + (gram if gram.dim() else 0.0)
        return cls(centre.double(), total(gram), float(prior), float(curvature))

    @property
    def width(self) -> int:
        return len(self.centre)

    def variance(self, features: Tensor) -> Tensor:
        """v of some nodes, from 0 to s².  # [n, d] -> [n], float64"""
        if features.dim() != 2 or features.shape[1] != self.width:
            raise BadUsage(
                "these features are not those that the posterior was made from",
                code="E-LEN",
                found=list(features.shape),
                expected=f"{self.width} columns",
            )
        precision = torch.eye(self.width, dtype=torch.float64) + self.curvature * self.prior * self.gram
        root = torch.linalg.cholesky(precision)
        shares = []
        for part in features.split(_ROWS_AT_ONCE):
            directions = _directions(part.double(), self.centre)
            left = torch.linalg.solve_triangular(root, directions.T, upper=False).square().sum(0)
            shares.append(left + 1.0 - directions.square().sum(1))
        share = torch.cat(shares) if shares else torch.zeros(0, dtype=torch.float64)
        return self.prior * share.clamp(0.0, 1.0)

    def tensors(self) -> dict[str, Tensor]:
        """What must be kept of it."""
        scale = torch.tensor([self.prior, self.curvature], dtype=torch.float64)
        return {"centre": self.centre, "gram": self.gram, "scale": scale}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The inverse of :meth:`tensors`; they may come from a file, and are checked."""
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        width = shapes.get("centre", (0,))[0]
        if shapes != {"centre": (width,), "gram": (width, width), "scale": (2,)}:
            raise BadInput(f"a posterior can't be made from tensors of shapes {shapes}", code="E-MODEL-SHAPE")
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise BadInput("the posterior has values that are not finite", code="E-MODEL-NAN")
        prior, curvature = (number(one, "scale", at_least=0.0) for one in tensors["scale"].tolist())
        return cls(tensors["centre"].double(), tensors["gram"].double(), prior, curvature)


def _directions(features: Tensor, centre: Tensor) -> Tensor:
    """f: rows of length 1, or 0 for a node at the centre.  # [n, d], float64"""
    offset = features - centre
    length = offset.norm(dim=1, keepdim=True)
    near = length <= _ROUNDING * centre.norm().clamp_min(1e-6)
    return torch.where(near, 0.0, offset / length.masked_fill(near, 1.0))
