"""graphsde: node predictions on graphs with an uncertainty one can act on.

The names below are the public interface. They are imported when first used: ``import graphsde`` itself is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphsde._version import __version__

if TYPE_CHECKING:
    from graphsde.acting.abstain import abstain
    from graphsde.acting.ask import ask
    from graphsde.acting.decide import decide
    from graphsde.acting.explain import explain
    from graphsde.base.errors import GraphsdeError
    from graphsde.datasets.benchmarks import load
    from graphsde.datasets.source import read
    from graphsde.datasets.splits import make_split
    from graphsde.datasets.synthetic import synthetic, synthetic_values
    from graphsde.graph.build import from_arrays
    from graphsde.graph.checks import check
    from graphsde.graph.graph import Graph
    from graphsde.io.networkx_graph import from_networkx, to_networkx
    from graphsde.io.pyg import from_pyg, to_pyg
    from graphsde.io.write import write_tables
    from graphsde.metrics.evaluation import evaluate
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
    from graphsde.models.lgnsde.settings import diffusion, drift, prior, solver
    from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
    from graphsde.uncertainty.conformal import conformalize
    from graphsde.uncertainty.scores import score

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
    "Graph": "graphsde.graph.graph",
    "GraphsdeError": "graphsde.base.errors",
    "GCN": "graphsde.models",
    "GNODE": "graphsde.models",
    "LGNSDE": "graphsde.models",
    "LabelPropagation": "graphsde.models",
    "MLP": "graphsde.models",
    "Model": "graphsde.models",
    "RegressionPrediction": "graphsde.prediction",
    "Prediction": "graphsde.prediction",
    "ClassPrediction": "graphsde.prediction",
    "abstain": "graphsde.acting.abstain",
    "ask": "graphsde.acting.ask",
    "check": "graphsde.graph.checks",
    "citation": "graphsde.models.citing",
    "conformalize": "graphsde.uncertainty.conformal",
    "decide": "graphsde.acting.decide",
    "diffusion": "graphsde.models.lgnsde.settings",
    "drift": "graphsde.models.lgnsde.settings",
    "evaluate": "graphsde.metrics.evaluation",
    "explain": "graphsde.acting.explain",
    "from_arrays": "graphsde.graph.build",
    "from_networkx": "graphsde.io.networkx_graph",
    "from_pyg": "graphsde.io.pyg",
    "load": "graphsde.datasets.benchmarks",
    "load_model": "graphsde.models",
    "make_split": "graphsde.datasets.splits",
    "prior": "graphsde.models.lgnsde.settings",
    "read": "graphsde.datasets.source",
    "register_model": "graphsde.models",
    "score": "graphsde.uncertainty.scores",
    "solver": "graphsde.models.lgnsde.settings",
    "synthetic": "graphsde.datasets.synthetic",
    "synthetic_values": "graphsde.datasets.synthetic",
    "to_networkx": "graphsde.io.networkx_graph",
    "to_pyg": "graphsde.io.pyg",
    "write_tables": "graphsde.io.write",
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
    "ClassPrediction",
    "Ensemble",
    "GNNSafe",
    "Graph",
    "GraphGP",
    "GraphsdeError",
    "LabelPropagation",
    "MCDropout",
    "Model",
    "Prediction",
    "RegressionPrediction",
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
