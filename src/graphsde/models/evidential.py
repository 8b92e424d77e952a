"""Models that predict a Dirichlet distribution: their common base, and Dirichlet calculus in float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphsde.graph.graph import Graph
from graphsde.models.neural import Inputs, NeuralModel, Response
from graphsde.prediction import Kind

LARGEST_LOG_EVIDENCE = 30.0
"""Evidence is clipped at e³⁰ ≈ 10¹³: beyond it float64 can't resolve the parts of a Dirichlet divergence."""


class EvidentialModel(NeuralModel):
    r"""Base of models that give every node Dirichlet concentrations :math:`\alpha \ge 1`.

    The module's logits are :math:`\ln\alpha` in float64, so that everything written for logits holds: their softmax is
    the mean :math:`\bar p = \alpha/\alpha_0`, their cross-entropy the NLL of that mean, which is what selection
    uses, and their energy is :math:`-\ln\alpha_0`, a lack of evidence like ``vacuity``.

    No temperature is fitted to them: dividing :math:`\ln\alpha` would raise the concentrations to a power and so change
    the evidence, which says how much is known about a node, along with the mean, which is all that validation NLL can
    judge. ``calibrate`` does not change the concentrations.
    """

    needs_float64 = True

    @property
    def kind(self) -> Kind:
        return "dirichlet"

    def respond(self, inputs: Inputs, graph: Graph, samples: int, seed: int) -> Response:
        assert self.module is not None
        outputs = self.module(inputs)
        logits = outputs.logits.double()
        return Response(logits[None], outputs.hidden, logits.exp())


def uncertain_cross_entropy(alpha: Tensor, labels: Tensor) -> Tensor:
    r"""The expected cross-entropy :math:`E_{p \sim Dir(\alpha)}[-\ln p_y] = \psi(\alpha_0) - \psi(\alpha_y)`.

    Paper: Biloš, Charpentier and Günnemann, "Uncertainty on asynchronous time event prediction", NeurIPS 2019.

    Shapes: ``alpha`` [n, C], ``labels`` [n] -> [n].
    """
    own = alpha.gather(-1, labels[:, None])[:, 0]
    return torch.digamma(alpha.sum(-1)) - torch.digamma(own)


def dirichlet_entropy(alpha: Tensor) -> Tensor:
    r"""Differential entropy of Dirichlets, in float64.  # [n, C] -> [n]

    :math:`\ln B(\alpha) + (\alpha_0 - C)\psi(\alpha_0) - \sum_c (\alpha_c - 1)\psi(\alpha_c)`. Its terms grow as
    :math:`\alpha \ln \alpha` while their sum grows as :math:`\ln\alpha`; with
    :math:`g(x) = \ln\Gamma(x) - (x-1)\psi(x) + x` the growth cancels before anything is added up, because
    :math:`\sum_c \alpha_c = \alpha_0`:

    .. math:: H = \sum_c g(\alpha_c) - g(\alpha_0) - (C - 1)\,\psi(\alpha_0).
    """
    alpha = alpha.double()
    total = alpha.sum(-1)
    return _reduced(alpha).sum(-1) - _reduced(total) - (alpha.shape[-1] - 1) * torch.digamma(total)


def _reduced(x: Tensor) -> Tensor:
    """``lnΓ(x) − (x − 1) ψ(x) + x``, by its asymptotic series above 1000, where that is right to 1e-11."""
    small = x.clamp(max=1e3)
    exact = torch.lgamma(small) - (small - 1) * torch.digamma(small) + small
    large = x.clamp(min=1e3)
    series = 0.5 * large.log() + 0.5 * (1 + math.log(2 * math.pi)) - 1 / (3 * large) - 1 / (12 * large.square())
    return torch.where(x > 1e3, series, exact)


def dirichlet_kl(alpha: Tensor, prior: Tensor) -> Tensor:
    """KL(Dir(alpha) ‖ Dir(prior)) in float64.  # [n, C], [n, C] -> [n]"""
    alpha, prior = alpha.double(), prior.double()
    total = alpha.sum(-1, keepdim=True)
    normaliser = torch.lgamma(total[..., 0]) - torch.lgamma(alpha).sum(-1)
    normaliser = normaliser - torch.lgamma(prior.sum(-1)) + torch.lgamma(prior).sum(-1)
    return normaliser + ((alpha - prior) * (torch.digamma(alpha) - torch.digamma(total))).sum(-1)
