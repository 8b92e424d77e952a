"""Models, with ``fit`` and ``predict``: one file per system."""

from graphsde.models.appnp import APPNP as APPNP
from graphsde.models.base import MODELS as MODELS
from graphsde.models.base import Model as Model
from graphsde.models.base import register_model as register_model
from graphsde.models.bgcn import BGCN as BGCN
from graphsde.models.bgcn_meanfield import BGCNMeanField as BGCNMeanField
from graphsde.models.ensemble import Ensemble as Ensemble
from graphsde.models.files import load_model as load_model
from graphsde.models.gat import GAT as GAT
from graphsde.models.gcn import GCN as GCN
from graphsde.models.gkde import GKDE as GKDE
from graphsde.models.gnnsafe import GNNSafe as GNNSafe
from graphsde.models.gnode import GNODE as GNODE
from graphsde.models.gnsd import GNSD as GNSD
from graphsde.models.gpn import GPN as GPN
from graphsde.models.grand import GRAND as GRAND
from graphsde.models.graph_gp import GraphGP as GraphGP
from graphsde.models.gread import GREAD as GREAD
from graphsde.models.label_propagation import LabelPropagation as LabelPropagation
from graphsde.models.lgnsde import LGNSDE as LGNSDE
from graphsde.models.mc_dropout import MCDropout as MCDropout
from graphsde.models.mlp import MLP as MLP
from graphsde.models.sgc import SGC as SGC

# isort: split
# registered after all others, whose order in lists and records stays
from graphsde.models.logistic import Logistic as Logistic
from graphsde.models.logistic import LogisticHops as LogisticHops
