"""Graph posterior network."""

from graphsde.models.gpn.flows import RadialFlows
from graphsde.models.gpn.model import GPN
from graphsde.models.gpn.module import GPNModule
from graphsde.models.gpn.settings import GPNSettings

__all__ = ["GPN", "GPNModule", "GPNSettings", "RadialFlows"]
