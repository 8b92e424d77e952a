"""Dropout that stays on at prediction, interpreted as a posterior over weights."""

from __future__ import annotations

from typing import Any, Unpack

from pydantic import Field

from graphsde.graph.graph import Graph
from graphsde.models.base import register_model
from graphsde.models.gcn import GCN, GCNSettings
from graphsde.models.options import MCDropoutOptions
from graphsde.models.sampled import SampledModel


class MCDropoutSettings(GCNSettings):
    """Settings of :class:`MCDropout`: those of the GCN, with a dropout that can't be off.

    Args:
        dropout: on the input and on the hidden layer, in training and at prediction.
        validation_samples: passes whose mean is used for validation.
    """

    dropout: float = Field(0.5, gt=0, lt=1)
    validation_samples: int = Field(5, ge=1, le=10_000)


@register_model
class MCDropout(SampledModel, GCN):
    r"""A GCN whose dropout stays on at prediction: every sample is a pass with other masks.

    Paper: Gal and Ghahramani, "Dropout as a Bayesian approximation: representing model uncertainty in deep learning",
    ICML 2016. Formula: :math:`\bar p = \frac1S \sum_s \mathrm{softmax}(f(X \odot M_s))` with Bernoulli masks
    :math:`M_s`, on the input and on the hidden layer of a two-layer GCN.

    The masks of sample s belong to the nodes, not to their positions. The best epoch is chosen by the NLL of the mean
    of a few samples, which is what a prediction is, not by that of the network without dropout.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> gs.MCDropout(hidden=8, epochs=5).fit(graph).predict(graph, samples=4).probs.shape
        (4, 1797, 10)
    """

    name = "mc-dropout"
    summary = "a GCN with dropout at prediction; its passes are samples"
    paper, year = "Gal and Ghahramani, Dropout as a Bayesian approximation", 2016
    Settings = MCDropoutSettings
    settings: MCDropoutSettings

    def __init__(self, **settings: Unpack[MCDropoutOptions]) -> None:
        given: dict[str, Any] = {**settings}  # more than a GCN has
        super().__init__(**given)

    def defaults_for(self, graph: Graph) -> dict[str, Any]:
        """The GCN's, except a dropout of zero, which would leave nothing to sample."""
        return {name: value for name, value in super().defaults_for(graph).items() if (name, value) != ("dropout", 0)}
