"""Pictures of a prediction, one file each; plotly is imported when one is drawn."""

from graphsde.view.figures.ego_network import EgoNode, ego_network_svg
from graphsde.view.figures.entropy_histogram import entropy_histogram
from graphsde.view.figures.pixel_image import pixel_png
from graphsde.view.figures.reliability import reliability_diagram
from graphsde.view.figures.risk_coverage import risk_coverage_curve
from graphsde.view.figures.training_curve import training_curve
from graphsde.view.figures.uncertainty_scatter import uncertainty_scatter

__all__ = [
    "EgoNode",
    "ego_network_svg",
    "entropy_histogram",
    "pixel_png",
    "reliability_diagram",
    "risk_coverage_curve",
    "training_curve",
    "uncertainty_scatter",
]
