"""Figures, one file each: data, a print version, a web version, a table; drawing libraries are imported late."""

from graphsde.view.figures.dynamics import SamplePaths as SamplePaths
from graphsde.view.figures.evaluation import EntropyHistogram as EntropyHistogram
from graphsde.view.figures.evaluation import ReliabilityDiagram as ReliabilityDiagram
from graphsde.view.figures.evaluation import RiskCoverageCurves as RiskCoverageCurves
from graphsde.view.figures.evaluation import UncertaintyScatter as UncertaintyScatter
from graphsde.view.figures.picture import Picture as Picture
from graphsde.view.figures.training_curve import TrainingCurve as TrainingCurve
