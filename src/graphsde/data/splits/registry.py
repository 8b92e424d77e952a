"""The families of splits by name, and which one a graph gets when nobody says."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from graphsde.data.graph import Graph
from graphsde.data.splits.split import Split
from graphsde.errors import BadUsage
from graphsde.registry import Registry
from graphsde.seeds import check_seed


class SplitMaker(Protocol):
    def __call__(self, graph: Graph, *, seed: int = 0, **options: Any) -> Split: ...


SPLITS: Registry[Any] = Registry("split")
"""Makers of splits: each entry is a :class:`SplitMaker`."""

PUBLIC_SIZES = {"cora": (140, 500, 1000), "citeseer": (120, 500, 1000), "pubmed": (60, 500, 1000)}
WITHOUT_MASKS = ("computers", "photo")


def make_split(graph: Graph, name: str, *, seed: int = 0, **options: Any) -> Split:
    """Divide the nodes of ``graph``.

    Args:
        graph: what to divide.
        name: one of :data:`SPLITS`.
        seed: the same seed gives the same split.
        options: those of the family, e.g. ``leave="Laptops"`` for ``leave-class-out``.

    Example:
        >>> from graphsde.data.synthetic import synthetic
        >>> graph = synthetic(300, classes=3)
        >>> make_split(graph, "shchur", train=5, val=5, lcc=False).sizes
        {'train': 15, 'val': 15, 'test': 270}
    """
    maker = SPLITS.get(name)
    check_seed(seed)
    parameters = inspect.signature(maker).parameters.values()
    accepted = [one.name for one in parameters if one.name not in ("graph", "seed")]
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters)
    if not open_ended and (unknown := sorted(set(options) - set(accepted))):
        raise BadUsage(
            f"the split '{name}' has no option {', '.join(unknown)}",
            found=", ".join(unknown),
            expected="one of " + ", ".join(accepted) if accepted else "no options",
        )
    return maker(graph, seed=seed, **options)


def default_split(graph: Graph) -> str:
    """The split that ``graph`` gets when the user names none.

    ``planetoid`` where the public masks are in place, ``given`` where the data has a training mask, ``shchur`` for
    the Amazon graphs, ``fractions`` otherwise.
    """
    if has_public_masks(graph):
        return "planetoid"
    if graph.train_mask is not None and graph.train_mask.any():
        return "given"
    return "shchur" if graph.name in WITHOUT_MASKS else "fractions"


def has_public_masks(graph: Graph) -> bool:
    """Whether the masks are the ones that the three Planetoid graphs were published with."""
    if graph.split not in (None, "planetoid") or graph.name not in PUBLIC_SIZES:
        return False
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    sizes = tuple(0 if mask is None else int(mask.sum()) for mask in masks)
    return sizes == PUBLIC_SIZES[graph.name]
