"""Suggestions for unknown names: typos, and names that other libraries use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate", "learning_rate_init", "learningrate", "lrate", "eta", "step_size"),
    "seed": ("random_state", "random_seed", "rng", "np_seed", "torch_seed", "manual_seed"),
    "epochs": ("n_epochs", "num_epochs", "max_epochs", "max_iter", "n_iter", "num_iterations", "iterations", "niter"),
    "hidden": (
        "hidden_channels",
        "hidden_dim",
        "hidden_dims",
        "hidden_size",
        "hidden_units",
        "hidden_features",
        "hidden_layer_sizes",
        "n_hidden",
        "num_hidden",
        "nhid",
    ),
    "dropout": ("dropout_rate", "drop_rate", "dropout_p", "p_dropout", "drop_prob"),
    "weight_decay": ("l2", "l2_penalty", "l2_reg", "wd", "alpha", "reg", "reg_lambda"),
    "early_stop": ("early_stopping",),
    "patience": ("n_iter_no_change", "early_stopping_patience", "early_stopping_rounds"),
    "optimizer": ("optimiser", "solver"),
    "members": ("n_estimators", "num_members", "ensemble_size"),
    "teleport": ("alpha", "restart", "restart_probability", "damping"),
    "steps": ("k", "K", "num_steps", "n_steps", "num_propagations", "power_iterations", "max_iter"),
    "hops": ("k", "K", "num_layers", "n_layers"),
    "c": ("C", "alpha", "inverse_regularization"),
    "paths": ("num_paths", "n_samples", "num_samples", "mc_samples"),
    "confidence_level": ("alpha", "coverage", "confidence"),
    "max_error": ("alpha", "risk", "error_rate", "target_error"),
    "delta": ("failure_probability",),
    "activation": ("act", "nonlinearity", "activation_function"),
    "device": ("accelerator", "gpu", "use_gpu", "cuda", "use_cuda"),
    "scaling": ("normalize", "normalize_features", "standardize", "scaler"),
}
"""Names that other libraries and papers use for ours."""

MEANT: dict[tuple[str, str], str] = {
    ("alpha", "teleport"): "the probability of returning to a node's own prediction",
    ("alpha", "weight_decay"): "the weight of the L2 penalty, if you mean scikit-learn's alpha",
    ("alpha", "c"): "the inverse of scikit-learn's alpha: c = 1/alpha",
    ("alpha", "confidence_level"): "which is 1 − alpha",
    ("coverage", "confidence_level"): "the share of nodes whose true value is in their set",
    ("damping", "teleport"): "which is 1 − damping",
}
"""What one has to know besides the other name."""


def closest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that was most likely meant: one typo away, or else similar overall.

    Two swapped letters count as one typo, which matching common parts would miss.

    Example:
        >>> closest("gnc", ["sgc", "gcn", "gpn"]), closest("GCN", ["gcn"]), closest("transformer", ["gcn"])
        ('gcn', 'gcn', None)
    """
    folded = {one.strip().lower()[:100]: one for one in choices}
    word = name.strip().lower()[:100]
    if word in folded:
        return folded[word]
    swapped = [one for one in folded if _swapped(word, one)]
    close = swapped or difflib.get_close_matches(word, list(folded), n=1)
    return folded[close[0]] if close else None


def _swapped(word: str, other: str) -> bool:
    """Whether the words differ by two swapped neighbouring letters only."""
    differ = [place for place, (one, two) in enumerate(zip(word, other, strict=False)) if one != two]
    if len(word) != len(other) or len(differ) != 2 or differ[1] != differ[0] + 1:
        return False
    first, second = differ
    return word[first] == other[second] and word[second] == other[first]


def called_here(name: str, choices: Iterable[str]) -> list[str]:
    """Our names for a name used by other libraries.

    Example:
        >>> called_here("random_state", ["lr", "seed"])
        ['seed']
    """
    return [one for one in choices if name in ELSEWHERE.get(one, ()) or name.lower() in ELSEWHERE.get(one, ())]


def what_was_meant(name: str, choices: Iterable[str], otherwise: str = "choose one of them") -> str:
    """A hint for the end of a message: the name used here, or what was probably meant.

    Example:
        >>> what_was_meant("learning_rate", ["lr", "epochs"])
        "use 'lr', its name here"
        >>> what_was_meant("epocs", ["lr", "epochs"]), what_was_meant("x", ["lr"])
        ("did you mean 'epochs'?", 'choose one of them')
    """
    known = list(choices)
    if here := called_here(name, known):
        told = [f"'{one}' ({MEANT[name, one]})" if (name, one) in MEANT else f"'{one}'" for one in here]
        return f"use {' or '.join(told)}" + ("" if "(" in told[-1] else ", its name here")
    close = closest(name, known)
    return f"did you mean '{close}'?" if close else otherwise
