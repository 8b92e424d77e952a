"""Priors, one file each: the drift that the posterior is held against."""

from graphsde.dynamics.prior.constant import ConstantPrior
from graphsde.dynamics.prior.graph_diffusion import GraphDiffusionPrior
from graphsde.dynamics.prior.ornstein_uhlenbeck import OrnsteinUhlenbeckPrior
from graphsde.dynamics.prior.registry import PRIORS, register_prior
from graphsde.dynamics.prior.underdamped import UnderdampedPrior

__all__ = [
    "PRIORS",
    "ConstantPrior",
    "GraphDiffusionPrior",
    "OrnsteinUhlenbeckPrior",
    "UnderdampedPrior",
    "register_prior",
]
