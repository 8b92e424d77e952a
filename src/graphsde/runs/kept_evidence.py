"""The reference of the score ``ood``, kept: it depends only on the graph and costs more than a prediction."""

from __future__ import annotations

from pathlib import Path

from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.runs.bundle import Bundle, sound
from graphsde.uncertainty.evidence import Evidence, evidence_of, remember_evidence
from graphsde.uncertainty.scores.registry import default_score
from graphsde.uncertainty.surrogates import Surrogates, remember_surrogates, surrogates_of

FILE = "evidence.safetensors"
MOST_NODES = 200_000
"""Largest graph whose evidence is computed at the end of a fit: about a second per 20,000 nodes."""
_SURROGATES = "surrogates."


def pack_evidence(graph: Graph, prediction: Prediction, model: Model) -> Bundle | None:
    """Evidence and surrogates of ``graph``; ``None`` if the score ``ood`` is not defined, or would take too long."""
    if graph.num_nodes > MOST_NODES or default_score(prediction, graph, model) != "ood":
        return None
    arrays, values = evidence_of(graph).state()
    made = surrogates_of(graph)
    arrays |= {_SURROGATES + "evidence": made.mixed_evidence, _SURROGATES + "mismatch": made.mixed_mismatch}
    return Bundle(arrays, values)


def recall_evidence(bundle: Bundle, graph: Graph, path: Path) -> None:
    """Let scores of ``graph`` find what was kept; ``path`` is for messages."""
    with sound(path):
        evidence = Evidence.from_state(bundle.arrays, bundle.values, graph)
        fields = [bundle.arrays[_SURROGATES + name] for name in ("evidence", "mismatch")]
        if any(field.shape != (graph.num_nodes,) for field in fields):
            raise ValueError("surrogates of other nodes")
    remember_evidence(graph, evidence)
    remember_surrogates(graph, Surrogates(fields[0], fields[1], evidence.without_nearest))
