"""Settings by name: the text of the paper, its released code, and the graph-diffusion formulation in three variants.

The settings of the graph-diffusion formulation for benchmarks and other graphs are in ``recipes.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from graphsde.base.registry import Registry, unknown_name
from graphsde.graph.graph import Graph
from graphsde.models.lgnsde.rule import choose
from graphsde.models.parameters import merge_settings
from graphsde.models.race import listed_candidates
from graphsde.models.recipes import has_words, named_recipe, recipe
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.prior import PRIORS

T = TypeVar("T")

# what changes for regression in every preset: these need class probabilities
REGRESSION: dict[str, Any] = {"consistency": {"kind": "none"}, "temperature": False, "calibrator": None}

PRESETS = {
    "auto": "the family: settings by the graph's own statistics, then a race of a few members (default)",
    "universal": "graph diffusion with mild consistency: the default of former versions",
    "closed-world": "graph diffusion with sharpened consistency: best if every class is known",
    "open-world": "graph diffusion without consistency: best for OOD detection",
    "paper": "the paper: GCN drift, Ornstein-Uhlenbeck prior, sigma 1, horizon 1; KL weighted as in the authors' code",
    "released": "the authors' code: GCN encoder and decoder, horizon 0.01, KL 0.01 averaged over nodes",
}


PARTS_OF_A_KIND = (
    "drift", "prior", "diffusion", "solver", "hidden", "state", "encoder", "decoder", "horizon", "steps", "sigma_is",
    "kl_weight", "kl_unit", "objective", "consistency", "gradients", "node_dropout", "latent_dropout", "noise_by",
)  # fmt: skip
"""Settings that define the network; those of training may be given to any member."""


def preset_for(given: Mapping[str, Any]) -> str:
    """The preset that matches the given parts: relative noise needs a drift and a prior that are made for it.

    With sigma_is or no KL given, the user has decided how the parts work together. A race chooses among whole members,
    so there is no race if a part is given.
    """
    drift, prior = _part(DRIFTS, given), _part(PRIORS, given)
    alone = drift is not None and not drift.relative
    held = prior is not None and not prior.relative and given.get("kl_weight") != 0
    if "sigma_is" not in given and (alone or held):
        return "paper"
    return "universal" if any(name in given for name in PARTS_OF_A_KIND) else "auto"


def follow_parts(values: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's settings adapted to the given parts, if the path KL would otherwise have no closed form: the drift
    says what would give it one, and given settings take precedence."""
    drift, prior = _part(DRIFTS, values), _part(PRIORS, values)
    if drift is None or prior is None or not (drift.relative and prior.relative) or given.get("kl_weight") == 0:
        return values
    noise = _part(DIFFUSIONS, given)
    channel = None if noise is None else noise.channel
    needed = noise is not None and channel is not None and not noise.full_rank
    if given.get("sigma_is", "ratio") != "ratio" and not needed:
        return values
    suited = dict(zip(("drift", "prior"), drift.suited(_options(given, "drift"), channel), strict=True))
    return values | {
        part: {**values[part], "options": {**values[part]["options"], **options}} for part, options in suited.items()
    }


def _part(registry: Registry[T], given: Mapping[str, Any]) -> T | None:
    """The class of a given part, ``None`` if it has no name; the settings refuse a wrong one."""
    found = given.get(registry.kind)
    name = found.get("name") if isinstance(found, Mapping) else None
    return registry.get(name) if isinstance(name, str) and name in registry else None


def _options(given: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    found = given.get(part)
    options = found.get("options") if isinstance(found, Mapping) else None
    return options if isinstance(options, Mapping) else {}


def preset_settings(preset: str, graph: Graph | None) -> dict[str, Any]:
    """The settings of a preset, for a graph if they depend on it."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, list(PRESETS))
    if preset == "auto":
        if graph is not None and not graph.class_names:
            return _graph_diffusion("universal", graph)  # the family is about class probabilities
        likeliest = listed_candidates("lgnsde")[0] if graph is None else choose(graph).candidates()[0]
        return merge_settings(family_settings(graph), likeliest.settings)
    if preset == "paper":
        return _paper()
    if preset == "released":
        return _released(graph)
    return _graph_diffusion(preset, graph)


def family_settings(graph: Graph | None) -> dict[str, Any]:
    """What all members of the family share."""
    return {
        "scaling": "l2" if graph is None or has_words(graph) else "standard",
        "state": "logits",
        "hidden": 1,
        "encoder": "mlp",
        "encoder_width": 64,
        "feature_dropout": 0.5,
        "encoder_dropout": 0.5,
        "node_dropout": 0.0,
        "latent_dropout": 0.0,
        "prior": {"name": "graph-ou", "options": {}},
        "diffusion": {"name": "constant"},
        "solver": {"name": "euler"},
        "sigma": 0.0,
        "sigma_is": "ratio",
        "noise_by": "marginals",
        "objective": "mixture",
        "consistency": {"kind": "confident", "weight": 1.0, "by_evidence": True},
        "lr": 0.02,
        "epochs": 1000,
        "patience": 100,
        "evaluate_every": 2,
        "validation_paths": 32,
        "temperature": True,
        "calibrator": "distance-aware",
        "race": True,
    }


def _graph_diffusion(mood: str, graph: Graph | None) -> dict[str, Any]:
    # as for Cora until the graph is known
    found = named_recipe("lgnsde", "cora") if graph is None else recipe("lgnsde", graph)
    v = found["graph-diffusion"] | found.get(mood, {})
    consistency = {"kind": "confident", "weight": 1.0} if mood == "universal" else {"kind": "none"}
    smoothed = v["noise"] == "smoothed"
    plain = ("scaling", "lr", "weight_decay", "feature_dropout", "decoder_dropout", "node_dropout", "latent_dropout")
    return {
        **AS_FORMERLY,
        **{key: v[key] for key in plain},
        "hidden": 32,
        "drift": {
            "name": "graph-heat",
            "options": {"teleport": v["teleport"], "source_operator": "smoothing" if smoothed else "identity"},
        },
        "prior": {"name": "graph-ou", "options": {"teleport": v["teleport"]}},
        "diffusion": {"name": v["noise"]},
        "solver": {"name": "euler"},
        "sigma": v["sigma"],
        "sigma_is": "ratio",
        "horizon": float(v["horizon"]),
        "steps": v["horizon"],
        "objective": v["objective"],
        "consistency": v.get("consistency", consistency),
        "epochs": v["epochs"],
        "patience": v["patience"],
        "evaluate_every": 5,
        "kl_weight": v["kl_weight"],
        "kl_unit": v["kl_unit"],
        "temperature": True,
    }


# how noise was scaled to the signal, and how many paths chose the epoch, when these presets were made
AS_FORMERLY = {"signal": "training", "validation_paths": 5}


def _paper() -> dict[str, Any]:
    return {
        **AS_FORMERLY,
        "hidden": 64,
        "encoder": "linear",
        "encoder_activation": "relu",
        "feature_dropout": 0.5,
        "node_dropout": 0.0,
        "decoder": "gcn",
        "decoder_dropout": 0.5,
        "decoder_activation": "none",
        "scaling": "none",  # sigma 1 is absolute: row-normalised features would drown in it
        "drift": {"name": "gcn", "options": {"layers": 2, "dropout": 0.2}},
        "prior": {"name": "ou", "options": {"theta": 1.0, "mu": 0.0}},
        "diffusion": {"name": "constant"},
        "solver": {"name": "sra1"},
        "sigma": 1.0,
        "sigma_is": "absolute",
        "horizon": 1.0,
        "steps": 10,
        "objective": "elbo",
        # the text's full ELBO (kl_weight 1, kl_unit elbo) sums the KL over all nodes and drives the posterior onto the
        # prior: docs/results/full-elbo.md has its figures. The weight is the released code's.
        "kl_weight": 0.01,
        "kl_unit": "node",
        "kl_warmup": 1,
        "paths": 1,
        "lr": 0.01,
        "weight_decay": 5e-4,
        "decay_all": True,
        "epochs": 200,
        "patience": 20,
        "temperature": False,
    }


def _released(graph: Graph | None) -> dict[str, Any]:
    return {
        **_paper(),
        "encoder": "gcn",
        "feature_dropout": 0.0,
        "latent_dropout": 0.4,
        "decoder_dropout": 0.0,
        "drift": {"name": "gcn", "options": {"layers": 2, "dropout": 0.2, "dropout_last": True}},
        "horizon": 0.01,
        "lr": 1e-3,
        "weight_decay": 0.0,
        "epochs": 200,
        "patience": 200,
        "select": "accuracy",
        **({} if graph is None else recipe("lgnsde", graph).get("released", {})),
    }
