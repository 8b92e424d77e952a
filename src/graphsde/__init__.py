"""graphsde: node predictions on graphs with an uncertainty one can act on.

The names below are the public interface. They are imported when first used: ``import graphsde`` itself is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphsde._version import __version__

if TYPE_CHECKING:
    from graphsde.data.benchmarks import load
    from graphsde.data.build import from_arrays
    from graphsde.data.checks import check
    from graphsde.data.formats.networkx_graph import from_networkx, to_networkx
    from graphsde.data.formats.pyg import from_pyg, to_pyg
    from graphsde.data.formats.write import write_tables
    from graphsde.data.graph import Graph
    from graphsde.data.reading import read
    from graphsde.data.splits import make_split
    from graphsde.data.synthetic import synthetic, synthetic_values
    from graphsde.errors import GraphsdeError
    from graphsde.models import (
        APPNP,
        BGCN,
        GAT,
        GCN,
        GKDE,
        GNODE,
        GNSD,
        GPN,
        GRAND,
        GREAD,
        LGNSDE,
        MLP,
        SGC,
        BGCNMeanField,
        Ensemble,
        GNNSafe,
        GraphGP,
        LabelPropagation,
        MCDropout,
        Model,
        load_model,
        register_model,
    )
    from graphsde.models.citing import citation
    from graphsde.models.lgnsde.parts import diffusion, drift, prior, solver
    from graphsde.prediction import NumericPrediction, Prediction
    from graphsde.scores import score
    from graphsde.scores.conformal import conformalize
    from graphsde.tasks.abstain import abstain
    from graphsde.tasks.ask import ask
    from graphsde.tasks.decide import decide
    from graphsde.tasks.evaluation import evaluate
    from graphsde.tasks.explain import explain

_HOMES = {
    "GraphGP": "graphsde.models",
    "SGC": "graphsde.models",
    "MCDropout": "graphsde.models",
    "GREAD": "graphsde.models",
    "GRAND": "graphsde.models",
    "GPN": "graphsde.models",
    "GNSD": "graphsde.models",
    "GNNSafe": "graphsde.models",
    "GKDE": "graphsde.models",
    "GAT": "graphsde.models",
    "Ensemble": "graphsde.models",
    "BGCNMeanField": "graphsde.models",
    "BGCN": "graphsde.models",
    "APPNP": "graphsde.models",
    "Graph": "graphsde.data.graph",
    "GraphsdeError": "graphsde.errors",
    "GCN": "graphsde.models",
    "GNODE": "graphsde.models",
    "LGNSDE": "graphsde.models",
    "LabelPropagation": "graphsde.models",
    "MLP": "graphsde.models",
    "Model": "graphsde.models",
    "NumericPrediction": "graphsde.prediction",
    "Prediction": "graphsde.prediction",
    "abstain": "graphsde.tasks.abstain",
    "ask": "graphsde.tasks.ask",
    "check": "graphsde.data.checks",
    "citation": "graphsde.models.citing",
    "conformalize": "graphsde.scores.conformal",
    "decide": "graphsde.tasks.decide",
    "diffusion": "graphsde.models.lgnsde.parts",
    "drift": "graphsde.models.lgnsde.parts",
    "evaluate": "graphsde.tasks.evaluation",
    "explain": "graphsde.tasks.explain",
    "from_arrays": "graphsde.data.build",
    "from_networkx": "graphsde.data.formats.networkx_graph",
    "from_pyg": "graphsde.data.formats.pyg",
    "load": "graphsde.data.benchmarks",
    "load_model": "graphsde.models",
    "make_split": "graphsde.data.splits",
    "prior": "graphsde.models.lgnsde.parts",
    "read": "graphsde.data.reading",
    "register_model": "graphsde.models",
    "score": "graphsde.scores",
    "solver": "graphsde.models.lgnsde.parts",
    "synthetic": "graphsde.data.synthetic",
    "synthetic_values": "graphsde.data.synthetic",
    "to_networkx": "graphsde.data.formats.networkx_graph",
    "to_pyg": "graphsde.data.formats.pyg",
    "write_tables": "graphsde.data.formats.write",
}

__all__ = [
    "APPNP",
    "BGCN",
    "GAT",
    "GCN",
    "GKDE",
    "GNODE",
    "GNSD",
    "GPN",
    "GRAND",
    "GREAD",
    "LGNSDE",
    "MLP",
    "SGC",
    "BGCNMeanField",
    "Ensemble",
    "GNNSafe",
    "Graph",
    "GraphGP",
    "GraphsdeError",
    "LabelPropagation",
    "MCDropout",
    "Model",
    "NumericPrediction",
    "Prediction",
    "__version__",
    "abstain",
    "ask",
    "check",
    "citation",
    "conformalize",
    "decide",
    "diffusion",
    "drift",
    "evaluate",
    "explain",
    "from_arrays",
    "from_networkx",
    "from_pyg",
    "load",
    "load_model",
    "make_split",
    "prior",
    "read",
    "register_model",
    "score",
    "solver",
    "synthetic",
    "synthetic_values",
    "to_networkx",
    "to_pyg",
    "write_tables",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'graphsde' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
