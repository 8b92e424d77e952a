"""The rows that several tables share, mapped once."""

from __future__ import annotations

from graphsde.tasks.paper.table import System

FIVE = ("cora", "citeseer", "computers", "photo", "pubmed")

GCN = System("gcn", "gcn")
GNODE = System("gnode", "gnode")
BGCN = System("bgcn", "bgcn-meanfield", note="the study ran Gaussian weights under this name, not the system it cites")
BB_GDC = System(None, "bgcn", note="the system that the paper cites as BGCN")
ENSEMBLE = System("ensemble", "ensemble")
GRAPH_GP = System("graph-gp", "graph-gp")
LGNSDE = System("lgnsde", "lgnsde", note="graph diffusion, the default of this package")
LGNSDE_PAPER = System(None, "lgnsde@paper", note="the network of the text")

MAIN = (GCN, GNODE, BGCN, BB_GDC, ENSEMBLE, GRAPH_GP, LGNSDE, LGNSDE_PAPER)
WITHOUT_GP = tuple(system for system in MAIN if system is not GRAPH_GP)
CLASS_METRICS = {"auroc": "micro_auroc", "aurc": "aurc", "accuracy": "accuracy"}
