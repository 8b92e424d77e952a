"""What to cite: the papers behind a model and its parts."""

from __future__ import annotations

from typing import Any

from graphsde.models import MODELS
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.prior import PRIORS
from graphsde.sde.solvers import SOLVERS


def citation(model: Any) -> list[str]:
    """The papers behind a model, and behind the drift, prior, diffusion and solver that it is made of.

    Args:
        model: a model, or the name of one.

    Example:
        >>> citation("gcn")
        ['Kipf and Welling, Semi-supervised classification with graph convolutional networks (2017)']
    """
    made = MODELS.get(model)() if isinstance(model, str) else model
    facts = [MODELS.entry(made.name).facts] if made.name in MODELS else []  # a wrapped module is not registered
    for registry, part in ((DRIFTS, "drift"), (PRIORS, "prior"), (DIFFUSIONS, "diffusion"), (SOLVERS, "solver")):
        chosen = getattr(getattr(made.settings, part, None), "name", None)
        if chosen is not None:
            facts.append(registry.entry(chosen).facts)
    told = [f"{one['paper']} ({one['year']})" for one in facts if one.get("paper") and one.get("year")]
    told += getattr(made, "borrowed", ())
    base = getattr(made.settings, "base", None)
    return list(dict.fromkeys([*told, *(citation(base) if isinstance(base, str) else [])]))
