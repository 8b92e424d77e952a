"""Drifts, one file each: f in dH = f(t, H) dt + g dW."""

# isort: off
from graphsde.sde.drift.graph_heat import GraphHeatDrift  # listings have them in this order
from graphsde.sde.drift.gat import GATDrift
from graphsde.sde.drift.gcn import GCNDrift

from graphsde.sde.drift.reaction import ReactionDrift
from graphsde.sde.drift.second_order import SecondOrderDrift
from graphsde.sde.drift.graph_filter import GraphFilterDrift

# isort: on
from graphsde.sde.field import DRIFTS

__all__ = ["DRIFTS", "GATDrift", "GCNDrift", "GraphFilterDrift", "GraphHeatDrift", "ReactionDrift", "SecondOrderDrift"]
