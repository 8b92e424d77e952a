"""Pictures, one file each: data, a face for paper, a face for a page, a table; drawing libraries are imported late."""

from graphsde.view.figures.ego_network import EgoNode, ego_network_svg
from graphsde.view.figures.entropy_histogram import EntropyHistogram, entropy_histogram
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.pixel_image import pixel_png
from graphsde.view.figures.reliability import ReliabilityDiagram, reliability_diagram
from graphsde.view.figures.risk_coverage import RiskCoverageCurves, risk_coverage_curve
from graphsde.view.figures.sample_paths import SamplePaths
from graphsde.view.figures.training_curve import TrainingCurve, training_curve
from graphsde.view.figures.uncertainty_scatter import UncertaintyScatter, uncertainty_scatter

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
