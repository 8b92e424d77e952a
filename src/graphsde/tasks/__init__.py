"""Questions people ask of a model and of its uncertainty; one file per question."""

from graphsde.tasks import (  # noqa: F401  (importing them registers them)
    active,
    adaptive_depth,
    backbones,
    cost,
    coverage,
    deciding,
    dynamics,
    entropies,
    misclassification,
    noise,
    ood,
    regression,
    sensitivity,
    tuning,
)
from graphsde.tasks.task import TASKS, Measurement, ModelMaker, Task, TaskOptions, register_task

__all__ = ["TASKS", "Measurement", "ModelMaker", "Task", "TaskOptions", "register_task"]
