"""Questions people ask of a model and of its uncertainty; one file per question."""

# isort: off
from graphsde.bench.tasks import (  # noqa: F401  (importing them registers them, in this order)
    active,
    adaptive_depth,
    sweep,
    cost,
    guarantees,
    dynamics,
    entropies,
    misclassification,
    noise,
    ood,
    regression,
    sensitivity,
    tuning,
)

# isort: on
from graphsde.bench.tasks.task import TASKS, Measurement, ModelMaker, Task, TaskOptions, register_task

__all__ = ["TASKS", "Measurement", "ModelMaker", "Task", "TaskOptions", "register_task"]
