"""Tasks: questions about a model and its uncertainty; one file per kind of question."""

from graphsde.bench.tasks.active import ActiveLearning
from graphsde.bench.tasks.adaptive_depth import AdaptiveDepth
from graphsde.bench.tasks.cost import Cost
from graphsde.bench.tasks.dynamics import Dynamics
from graphsde.bench.tasks.entropies import Entropies
from graphsde.bench.tasks.guarantees import Coverage, Deciding
from graphsde.bench.tasks.noise import FeatureNoise
from graphsde.bench.tasks.ood import OutOfDistribution
from graphsde.bench.tasks.standard import Misclassification, Regression
from graphsde.bench.tasks.sweep import Backbones, Sensitivity
from graphsde.bench.tasks.task import TASKS, Measurement, ModelMaker, Task, TaskOptions, register_task
from graphsde.bench.tasks.tuning import Tuning

__all__ = ["TASKS", "Measurement", "ModelMaker", "Task", "TaskOptions", "register_task"]

# in the order of lists
for _task in (
    *(ActiveLearning, AdaptiveDepth, Misclassification, OutOfDistribution, Backbones, Cost, Coverage, Deciding),
    *(Dynamics, Entropies, FeatureNoise, Regression, Sensitivity, Tuning),
):
    register_task(_task)
