"""What an LGNSDE is trained for: likelihood over paths, agreement among paths, distance from the prior."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from graphsde.models.lgnsde.settings import ConsistencySettings
from graphsde.models.likelihood import ClassLikelihood, Likelihood


def path_likelihood(
    logits: Tensor,
    labels: Tensor,
    objective: Literal["mean", "log-mean"],
    likelihood: Likelihood = ClassLikelihood(),
) -> Tensor:
    """Negative log-likelihood per training node, over paths.  # logits [n, S, C], labels [n]

    ``mean`` is the expected log-likelihood of the evidence lower bound; ``log-mean`` the log of the mean likelihood,
    which is a tighter bound and does not ask every single path to be right.
    """
    per_path = likelihood.of_paths(logits, labels)
    if objective == "mean":
        return -per_path.mean()
    return -(torch.logsumexp(per_path, dim=1) - torch.log(torch.tensor(float(logits.shape[1])))).mean()


def ramp(epoch: int, warmup: int) -> float:
    """A weight that grows linearly to 1 over ``warmup`` epochs."""
    return min(1.0, epoch / warmup)


def consistency(logits: Tensor, settings: ConsistencySettings, validation: Tensor) -> Tensor:
    r"""Disagreement among the paths of each node, mean over nodes.  # logits [N, S, C]

    ``sharpen``: :math:`\|p_s - \mathrm{sharpen}(\bar p, \tau)\|^2`, the target detached. ``confident``:
    :math:`\|p_s - \bar p\|^2 + \tfrac12 k H(p_s)` with k = 1 where the mean's largest probability reaches the median
    of that over the validation nodes (no label is used).
    """
    probs = torch.softmax(logits, dim=-1)
    mean = probs.mean(dim=1, keepdim=True)
    if settings.kind == "sharpen":
        with torch.no_grad():
            target = mean ** (1.0 / settings.temperature)
            target = target / target.sum(-1, keepdim=True)
        return (probs - target).square().sum(-1).mean()
    disagreement = (probs - mean.detach()).square().sum(-1).mean(1)  # [N]
    with torch.no_grad():
        surest = mean[:, 0].max(-1).values
        confident = (surest >= surest[validation].median()).to(probs.dtype)
    entropy = -(probs * torch.log_softmax(logits, dim=-1)).sum(-1).mean(1)
    return (disagreement + 0.5 * confident * entropy).mean()
