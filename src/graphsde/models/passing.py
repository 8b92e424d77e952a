"""Knowledge passed from the members of an ensemble to the next one: what they have predicted is a part of its loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.models.base import Model
from graphsde.models.neural import GraphLearner, NeuralModel
from graphsde.prediction import ClassPrediction, require


class Student(GraphLearner):
    r"""The loss of a member with others before it, :math:`\mathrm{CE} + \lambda\,\mathrm{mean}_i\,KL(q_i \| p_i)`: the
    mean runs over all nodes, q is what the others predict on average."""

    knowledge: Tensor
    weight: float

    def loss(self, epoch: int) -> Tensor:
        self.module.train()
        logits = self.module(self.inputs, self.dropout).logits
        q = self.knowledge.to(logits)
        divergence = (torch.xlogy(q, q) - q * torch.log_softmax(logits, -1)).sum(-1).mean()
        return self.likelihood.loss(logits[self.train], self.train_labels) + self.weight * divergence


def require_student(member: Model) -> None:
    """Refuse a model whose loss has no place for what others know."""
    if not isinstance(member, NeuralModel) or type(member).Learner is not GraphLearner:
        raise BadUsage(
            f"{member.name} has a loss of its own, to which no knowledge can be passed",
            code="E-SETTING",
            expected="a base that is trained by cross-entropy alone, such as gcn, gat, appnp or mlp",
            fix="choose another base, or passing=none",
        )
    if getattr(member.settings, "race", False):
        raise BadUsage("members with a race can't be passed any knowledge", code="E-SETTING", fix="set race=false")


@contextmanager
def taught(member: Model, before: Sequence[Model], weight: float, graph: Graph) -> Iterator[None]:
    """Inside, ``member`` is fitted with what earlier members know; the first has none to learn from."""
    require_student(member)
    if not graph.num_classes:
        raise BadUsage(
            "knowledge is passed as class probabilities, and this is regression",
            code="E-TARGET",
            fix="use passing=none",
        )
    if not before:
        yield
        return
    said = [require(one.predict(graph), ClassPrediction, "knowledge") for one in before]
    knowledge = torch.from_numpy(np.mean([one.mean for one in said], axis=0))
    learner = type("Student", (Student,), {"knowledge": knowledge, "weight": weight})
    member.learner_for = lambda module: learner  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del vars(member)["learner_for"]  # a fitted member needs none of it any more
