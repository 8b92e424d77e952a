"""Things with ``fit`` and ``predict``, one file per system."""

from graphsde.models.appnp import APPNP
from graphsde.models.base import MODELS, Model, register_model
from graphsde.models.bgcn import BGCN
from graphsde.models.bgcn_meanfield import BGCNMeanField
from graphsde.models.ensemble import Ensemble
from graphsde.models.files import load_model
from graphsde.models.gat import GAT
from graphsde.models.gcn import GCN
from graphsde.models.gkde import GKDE
from graphsde.models.gnnsafe import GNNSafe
from graphsde.models.gnode import GNODE
from graphsde.models.gnsd import GNSD
from graphsde.models.gpn import GPN
from graphsde.models.grand import GRAND
from graphsde.models.graph_gp import GraphGP
from graphsde.models.gread import GREAD
from graphsde.models.label_propagation import LabelPropagation
from graphsde.models.lgnsde import LGNSDE
from graphsde.models.mc_dropout import MCDropout
from graphsde.models.mlp import MLP
from graphsde.models.sgc import SGC

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
    "MODELS",
    "SGC",
    "BGCNMeanField",
    "Ensemble",
    "GNNSafe",
    "GraphGP",
    "LabelPropagation",
    "MCDropout",
    "Model",
    "load_model",
    "register_model",
]
