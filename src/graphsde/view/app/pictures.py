"""Nodes whose features are pixels, as small pictures."""

from __future__ import annotations

import base64

import numpy as np
import scipy.sparse as sp

from graphsde.data.graph import Graph
from graphsde.view.figures.pixel_image import pixel_png


def pictures(graph: Graph, nodes: np.ndarray) -> list[str] | None:
    """A data URI for each node; ``None`` where the graph has no pictures."""
    shape, features = graph.image_shape, graph.features
    if shape is None or features.shape[1] != shape[0] * shape[1] or not features.shape[0]:
        return None
    low, high = float(features.min()), float(features.max())
    rows = features[nodes]
    dense = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    return [pixel_png(row.reshape(shape), low, high) for row in dense]


def svg_image(svg: str) -> str:
    """An inline drawing as the address of a picture: as such it is shown, and nothing in it can run."""
    style = "<style>line{stroke:#8a8f98}.ego-side{stroke-opacity:.35}</style>"
    opening, _, rest = str(svg).partition(">")  # escaped text of its own class would escape what we add
    named = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    whole = f"{named}>{style}{rest}"
    return "data:image/svg+xml;base64," + base64.b64encode(whole.encode("utf-8")).decode("ascii")
