"""Questions people ask of a model and of its uncertainty; one file per question."""

from graphsde.tasks import (  # noqa: F401  (importing them registers them)
    active,
    backbones,
    cost,
    misclassification,
    noise,
    ood,
    sensitivity,
)
from graphsde.tasks.task import TASKS, Measurement, ModelMaker, Task, TaskOptions, register_task

__all__ = ["TASKS", "Measurement", "ModelMaker", "Task", "TaskOptions", "register_task"]
