"""Settings of the graph Gaussian process."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphsde.graph.spectrum import Laplacian
from graphsde.models.base import ModelSettings
from graphsde.nn.encoding import Scaling
from graphsde.nn.settings import TrainSettings


class GraphGPSettings(ModelSettings, TrainSettings):
    """Settings of :class:`~graphsde.models.graph_gp.model.GraphGP`.

    Args:
        laplacian: ``normalised`` (I − D^{-1/2} A D^{-1/2}) or ``unnormalised`` (D − A, the paper's; its prior
            variances are very uneven near hubs).
        modes: eigenvectors besides the one of eigenvalue zero that every component has; ``None`` uses all of a graph
            up to 1500 nodes and 500 of a larger one.
        nu, kappa, sigma: smoothness, length and prior standard deviation at the start of training. Without a ``kappa``
            it is such that, for C classes, the (C − 1)-th slowest varying mode has an eighth of the weight of a flat
            one: as many modes as separate C groups.
        learn_kernel: whether they are trained.
        kernel_lr: learning rate of their logarithms.
        covariance: of the variational posterior in whitened coordinates; ``diagonal`` is cheaper and less good.
        inducing: maximum number of inducing points; further training nodes still enter the likelihood.
        batch: training nodes in a step.
        draws: of the latent values in a step, for the expected log-likelihood.
        features: ``none`` (the paper's process), or a ``linear`` or ``rbf`` kernel of the features added to the
            graph's.
        hops: how often these features are averaged over neighbours first.
        scaling: of the features, as for the trained models.
    """

    laplacian: Laplacian = "normalised"
    modes: int | None = Field(None, ge=1)
    nu: float = Field(5.0, gt=0, le=1e6)
    kappa: float | None = Field(None, gt=0, le=1e6)
    sigma: float = Field(15.0, gt=0, le=1e6)
    learn_kernel: bool = True
    kernel_lr: float = Field(0.02, gt=0, le=10)
    covariance: Literal["full", "diagonal"] = "full"
    inducing: int = Field(300, ge=1, le=20_000)
    batch: int = Field(1000, ge=1)
    draws: int = Field(16, ge=1, le=10_000)
    features: Literal["none", "linear", "rbf"] = "none"
    hops: int = Field(2, ge=0, le=100)
    scaling: Scaling = "auto"
    epochs: int = Field(400, ge=1, le=1_000_000)
    lr: float = Field(0.1, gt=0, le=100)
    patience: int = Field(100, ge=1)
    evaluate_every: int = Field(5, ge=1)
