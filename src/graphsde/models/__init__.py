"""Things with ``fit`` and ``predict``, one file per system."""

from graphsde.models.base import MODELS, Model, register_model
from graphsde.models.files import load_model
from graphsde.models.gcn import GCN
from graphsde.models.gnode import GNODE
from graphsde.models.label_propagation import LabelPropagation
from graphsde.models.lgnsde import LGNSDE
from graphsde.models.mlp import MLP

__all__ = ["GCN", "GNODE", "LGNSDE", "MLP", "MODELS", "LabelPropagation", "Model", "load_model", "register_model"]
