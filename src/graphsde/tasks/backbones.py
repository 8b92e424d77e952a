"""The same latent SDE with another network as its drift."""

from __future__ import annotations

from typing import Any

from graphsde.errors import BadUsage
from graphsde.tasks.sweep import Sweep, SweepOptions
from graphsde.tasks.task import ModelMaker, register_task

DRIFTS: dict[str, dict[str, Any]] = {
    "gcn": {"drift": {"name": "gcn", "options": {"layers": 2, "dropout": 0.2}}},
    "gat": {"drift": {"name": "gat", "options": {"layers": 2, "heads": 4, "dropout": 0.2}}},
    "diffusion": {"drift": {"name": "diffusion", "options": {}}},
    "reaction": {"drift": {"name": "reaction", "options": {}}},
}


class BackboneOptions(SweepOptions):
    """Options of :class:`Backbones`.

    Args:
        drifts: which ones.
    """

    drifts: tuple[str, ...] = tuple(DRIFTS)


@register_task
class Backbones(Sweep):
    """A latent SDE (``lgnsde@paper``) with GCN, GAT, diffusion and reaction–diffusion as drift, all else equal."""

    name = "backbones"
    summary = "a latent SDE with other networks as drift: GCN, GAT, graph diffusion, reaction-diffusion"
    Options = BackboneOptions
    options: BackboneOptions
    headline = tuple(f"accuracy@{name}" for name in DRIFTS)

    def points(self, make: ModelMaker) -> list[tuple[str, dict[str, Any], int]]:
        if not hasattr(make().settings, "drift"):
            raise BadUsage("only latent SDEs have a drift", code="E-SETTING", fix="use lgnsde@paper")
        unknown = [name for name in self.options.drifts if name not in DRIFTS]
        if unknown:
            raise BadUsage("no such backbone", code="E-SETTING", found=unknown, expected=", ".join(DRIFTS))
        return [(name, DRIFTS[name], self.options.samples) for name in self.options.drifts]
