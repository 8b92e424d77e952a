"""Graph neural reaction-diffusion."""

from __future__ import annotations

from typing import Literal, Unpack

import torch
from torch import nn

from graphsde.models.base import register_model
from graphsde.models.grand import FlowModel, FlowModule, FlowSettings
from graphsde.models.options import GREADOptions
from graphsde.sde.drift import ReactionDrift
from graphsde.sde.drift.reaction import POINTWISE

REACTIONS = {
    "bs": "blurring-sharpening",
    "fisher": "fisher",
    "allen-cahn": "allen-cahn",
    "zeldovich": "zeldovich",
    "source": "source",
    "fb": "filter-bank",
    "fb*": "filter-bank-identity",
}


class GREADSettings(FlowSettings):
    """Settings of :class:`GREAD`, besides those of :class:`~graphsde.models.grand.FlowSettings`.

    Args:
        reaction: r. ``bs`` (A − A²)H; ``fisher`` H(1 − H), ``allen-cahn`` H(1 − H²), ``zeldovich`` H(H − H²), entry by
            entry; ``source`` H(0); ``fb`` (I − A)H and ``fb*`` (I − A)H + H, a high pass on top of the low pass of the
            diffusion. The three that act entry by entry can diverge, so their β is not drawn but starts at 0.1 and
            stays in (0, 1); if training still diverges, use more steps or smaller features.
        adjacency: A: ``soft`` is attention computed once, from H(0); ``original`` the random walk with self loops.
    """

    reaction: Literal["bs", "fisher", "allen-cahn", "zeldovich", "source", "fb", "fb*"] = "bs"
    adjacency: Literal["soft", "original"] = "soft"


@register_model
class GREAD(FlowModel):
    r"""Diffusion along edges and a reaction: :math:`\dot H = -\alpha (I - A) H + r(H)\,\mathrm{diag}(\beta)`.

    Paper: Choi et al., "GREAD: graph neural reaction-diffusion networks", ICML 2023. H(0) = Linear(X), A attention over
    the neighbours of a node and itself; α the sigmoid of a learned number, β learned per dimension, drawn from
    U(−1, 1); logits Linear(relu(H(T))). Without β it is :class:`~graphsde.models.grand.GRAND` without source.

    Deterministic: its uncertainty is only that of its class probabilities; there is no epistemic part.

    Settings for the citation graphs are the published ones (with a linear encoder on PubMed too); there are none for
    the Amazon graphs, which use Cora's with twice the width. The filter banks follow the paper's (I − A)H; its
    released code has the opposite sign of A.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.GREAD(epochs=3, reaction="fb").fit(graph).predict(graph).kind
        'deterministic'
    """

    name = "gread"
    summary = "graph diffusion with a reaction against over-smoothing, as an ODE; deterministic"
    paper, year = "Choi et al., GREAD: graph neural reaction-diffusion networks", 2023
    Settings = GREADSettings
    settings: GREADSettings

    def __init__(self, **settings: Unpack[GREADOptions]) -> None:
        super().__init__(**settings)

    def build(self, width: int, classes: int, generator: torch.Generator) -> nn.Module:
        s = self.settings
        pointwise = REACTIONS[s.reaction] in POINTWISE
        drift = ReactionDrift(
            s.hidden,
            reaction=REACTIONS[s.reaction],
            rate=0.5,
            learn_rate=True,
            strength=0.1 if pointwise else 0.0,
            strength_spread=0.0 if pointwise else 1.0,
            bounded_strength=pointwise,
            attention="linear" if s.adjacency == "soft" else "none",
            operator="random-walk",
            kernel=s.attention,
            heads=s.heads,
            attention_width=s.attention_width,
            generator=generator,
        )
        return FlowModule(width, classes, s, drift, generator)
