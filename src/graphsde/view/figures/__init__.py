"""Pictures, one file each: data, a face for paper, a face for a page, a table; drawing libraries are imported late."""

from graphsde.view.figures.dynamics import SamplePaths
from graphsde.view.figures.evaluation import (
    EntropyHistogram,
    ReliabilityDiagram,
    RiskCoverageCurves,
    UncertaintyScatter,
    entropy_histogram,
    reliability_diagram,
    risk_coverage_curve,
    uncertainty_scatter,
)
from graphsde.view.figures.nodes import EgoNode, ego_network_svg, pixel_png
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.training_curve import TrainingCurve, training_curve

__all__ = [
    "EgoNode",
    "EntropyHistogram",
    "Picture",
    "ReliabilityDiagram",
    "RiskCoverageCurves",
    "SamplePaths",
    "TrainingCurve",
    "UncertaintyScatter",
    "ego_network_svg",
    "entropy_histogram",
    "pixel_png",
    "reliability_diagram",
    "risk_coverage_curve",
    "training_curve",
    "uncertainty_scatter",
]
