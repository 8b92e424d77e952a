"""From a network's outputs to a prediction: one rule for each kind of target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from graphsde.base.registry import Rules
from graphsde.nn.likelihood import NOISE, mean_and_variance
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.uncertainty.known_state import known_state

if TYPE_CHECKING:
    from graphsde.models.neural import NeuralModel, Response

ANSWERS: Rules[Callable[[NeuralModel, Response, np.ndarray], Prediction]] = Rules("a network's prediction")


@ANSWERS.register("classification")
def _classes(model: NeuralModel, response: Response, ids: np.ndarray) -> ClassPrediction:
    temperature = model.temperature_of_logits()
    if response.alpha is not None:
        values = (response.alpha / response.alpha.sum(-1, keepdim=True))[None].numpy()
    elif model.kind == "samples":
        values = _of_samples(response.logits, temperature).numpy()
    else:
        values = torch.softmax(response.logits.double() / temperature, -1).numpy()
    known = None if response.variance is None else known_state(values, response.variance.numpy())
    return ClassPrediction(
        probs=values,
        ids=ids,
        class_names=model._require_fitted(),
        # without the variance of the state there is no other spread
        kind="deterministic" if model.kind == "gaussian" and known is None else model.kind,
        logits=response.logits.numpy(),
        embedding=None if response.hidden is None else response.hidden.float().numpy(),
        alpha=None if response.alpha is None else response.alpha.numpy(),
        temperature=temperature,
        known_state=None if known is None else known.astype(values.dtype),
    )


def _of_samples(logits: Tensor, temperature: float) -> Tensor:
    """In single precision, sample by sample and with the classes first in memory, which is several times faster.

    # [S, N, C]
    """
    probs = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    for one, place in zip(logits, probs, strict=True):
        turned = one.t().to(torch.float64, memory_format=torch.contiguous_format)
        place.copy_(torch.softmax(turned / temperature, 0).t())
    return probs


@ANSWERS.register("regression")
def _numbers(model: NeuralModel, response: Response, ids: np.ndarray) -> RegressionPrediction:
    assert model.module is not None and model._target_scale is not None
    scale, log_noise = model._target_scale, model.module.get_parameter(NOISE).detach().double()
    mean, variance = mean_and_variance(response.logits.double(), log_noise)
    return RegressionPrediction(
        means=scale.mean + scale.scale * mean.numpy(),
        variances=scale.scale**2 * variance.numpy(),
        ids=ids,
        kind="samples" if model.kind == "samples" else "deterministic",
        embedding=None if response.hidden is None else response.hidden.float().numpy(),
    )
