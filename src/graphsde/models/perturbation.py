"""Features moved along the gradient of the model's own answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from graphsde.data.graph import Graph
from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.layers import Features
from graphsde.errors import BadUsage
from graphsde.memory import require_memory
from graphsde.prediction import Perturb

if TYPE_CHECKING:
    from graphsde.models.neural import Inputs, NeuralModel


def moved_features(model: NeuralModel, graph: Graph, inputs: Inputs, perturb: Perturb) -> Features:
    """See :class:`graphsde.prediction.Perturb`. The result is dense: the step reaches every column.  # [N, d]"""
    if not perturb.temperature > 0:
        raise BadUsage("a temperature is positive", found=perturb.temperature, expected="a number above 0")
    if perturb.size == 0:
        return inputs.features
    dense = _dense(inputs.features).requires_grad_()
    assert model.module is not None
    wanted = [parameter.requires_grad for parameter in model.module.parameters()]
    model.module.requires_grad_(False)  # only the features' gradient is asked for
    try:
        with torch.enable_grad():
            logits = model.central_logits(replace(inputs, features=dense), graph) / perturb.temperature
            loss = functional.cross_entropy(logits, logits.detach().argmax(-1), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, dense)
    finally:
        for parameter, want in zip(model.module.parameters(), wanted, strict=True):
            parameter.requires_grad_(want)
    dense = dense.detach()
    return dense - perturb.size * dense.std() * gradient.sign()


def _dense(features: Features) -> Tensor:
    if not isinstance(features, SparseMatrix):
        return features.clone()
    rows, columns = features.shape
    require_memory(16 * rows * columns, "perturbing sparse features", "use a score that does not perturb, as entropy")
    return features.csr().to_dense()
