r"""Proposition 1: the variance of the outputs is bounded by that of the state, and that by the equation.

The proof is two independent copies, and so is the measurement: with H and H' on independent paths,

.. math::
    \mathrm{Var}(\hat y) = \tfrac12 E\|\hat y - \hat y'\|^2 \le L_h^2 \, \tfrac12 E\|H - H'\|^2 = L_h^2 \mathrm{Var}(H)

holds pair by pair, whatever the sample. The bound on Var(H(t)) is one of expectations; it is compared with its estimate
from the pairs and the standard error of that.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphsde.tasks.theory.bounds import Bounds
from graphsde.tasks.theory.lipschitz import Constants
from graphsde.tasks.theory.results import ROUNDING, ROUNDING_OF_STATE, STANDARD_ERRORS, Proposition1
from graphsde.tasks.theory.subject import Subject


def measure_proposition_1(subject: Subject, constants: Constants, bounds: Bounds, samples: int) -> Proposition1:
    """Both sides of proposition 1 at all saved times.

    Args:
        subject: the network on its graph.
        constants: its certified constants.
        bounds: of Var(H(t)).
        samples: paths, an even number: they are taken in pairs.
    """
    distances = [_pair_distances(subject, group) for group in subject.groups(samples)]
    state, logits, probabilities, size = (np.concatenate(part, axis=1) for part in zip(*distances, strict=True))
    failed = {}
    for name, output, factor in (
        ("logits", logits, constants.l_h_logits),
        ("probabilities", probabilities, constants.l_h_probabilities),
    ):
        failed[name] = int((output > factor * state * (1.0 + ROUNDING) + ROUNDING_OF_STATE * size).sum())
    halves = 0.5 * state**2
    latent, error = halves.mean(1), halves.std(1, ddof=1) / np.sqrt(halves.shape[1])
    surely = latent - STANDARD_ERRORS * error
    latent_failed = {name: int((surely > right * (1.0 + ROUNDING)).sum()) for name, right in bounds.named().items()}
    return Proposition1(
        times=np.array(subject.times),
        logits=0.5 * (logits**2).mean(1),
        logits_right=constants.l_h_logits**2 * latent,
        probabilities=0.5 * (probabilities**2).mean(1),
        probabilities_right=constants.l_h_probabilities**2 * latent,
        latent=latent,
        latent_error=error,
        bounds=bounds,
        violations=sum(failed.values()) + sum(latent_failed.values()),
        n=2 * state.size + len(latent_failed) * len(latent),
        output_violations=failed,
        latent_violations=latent_failed,
        pairs=state.shape[1],
    )


def _pair_distances(subject: Subject, paths: range) -> tuple[np.ndarray, ...]:
    """Distances of neighbouring paths in state, logits and probabilities, and the size of logits.  # [M, P] each"""
    rows: list[tuple[Tensor, ...]] = []
    for state in subject.states(paths):
        logits = subject.logits(state)
        size = logits.square().sum((0, 2)).sqrt()[::2] + 1.0
        rows.append((_apart(state), _apart(logits), _apart(subject.probabilities(logits)), size))
    return tuple(torch.stack(column).numpy() for column in zip(*rows, strict=True))


def _apart(values: Tensor) -> Tensor:
    """‖x_{2p} − x_{2p+1}‖ over nodes and columns.  # [N, S, c] -> [S/2]"""
    return (values[:, 0::2] - values[:, 1::2]).square().sum((0, 2)).sqrt()
