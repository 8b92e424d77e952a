"""How to train on a graph: whole, whole with checkpoints, part by part, or in batches; chosen by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphsde.base.errors import NotEnoughMemory
from graphsde.base.memory import anonymous_bytes, human_bytes
from graphsde.graph.graph import Graph
from graphsde.models.lgnsde import LGNSDE
from graphsde.models.neural import NeuralModel

FEWEST_PARTS, MOST_PARTS = 4, 1024
SMALL_ARRAYS = 0.4
"""Share of a limit for arrays that are too small to go into files."""
TRANSIENT = 0.25
"""Share of it for what one part has in memory while it computes."""
STATES_OF_A_STEP = 13
"""Measured on the paper's network: of a step that is recomputed in the backward pass, besides what goes into files."""
BATCH = 8_192
"""Default number of nodes at once."""
BYTES_A_NODE = 200
"""Bytes per node that always stay in memory: id, label, roles, evidence."""


@dataclass(frozen=True)
class Way:
    """How, by which settings, and why."""

    name: str
    settings: dict[str, Any]
    why: str


def choose_way(model: NeuralModel, graph: Graph, limit: int, *, samples: int = 64) -> Way:
    """The simplest way that fits into ``limit`` bytes: exact ones before batches, which approximate.

    Args:
        model: with the user's settings.
        graph: to fit on.
        limit: of memory.
        samples: of the prediction that follows.

    Raises:
        NotEnoughMemory: no way fits.
    """
    model.resolve(graph)
    held = anonymous_bytes()
    whole = held + model.needed_memory(graph, samples=samples)
    if whole <= limit:
        return Way("full", {}, f"the whole graph needs about {human_bytes(whole)} of {human_bytes(limit)}")
    too_much = f"the whole graph would need about {human_bytes(whole)}, more than {human_bytes(limit)}"
    if not isinstance(model, LGNSDE):
        raise NotEnoughMemory(
            f"{too_much}, and {model.name} has no other way",
            found=human_bytes(whole),
            expected=f"at most {human_bytes(limit)}",
            fix="use lgnsde, which can be trained part by part, or allow more memory",
        )
    if model.settings.gradients == "store" and not model.keeps_no_states:
        lean = held + model.with_settings(gradients="checkpoint").needed_memory(graph, samples=samples)
        if lean <= limit:
            why = f"{too_much}; about {human_bytes(lean)} if intermediate states are recomputed"
            return Way("checkpointed", {"gradients": "checkpoint"}, why)
    fixed = held + SMALL_ARRAYS * limit + BYTES_A_NODE * graph.num_nodes
    if not model.keeps_no_states:  # what every part holds in the middle of a step
        fixed += STATES_OF_A_STEP * 4 * model.settings.paths * model.state_width(graph) * graph.num_nodes
    if fixed + TRANSIENT * limit <= limit and model.has_parts:
        settings: dict[str, Any] = {"way": "partitioned"}
        if model.settings.gradients == "store" and not model.keeps_no_states:
            settings["gradients"] = "checkpoint"
        lean_model = model.with_settings(**settings)
        lean_model.resolve(graph)
        parts = settings["parts"] = parts_for(lean_model, graph, limit)
        return Way("partitioned", settings, f"{too_much}; {parts} parts, one at a time, large arrays in files")
    batched = model.with_settings(way="batched")
    batched.resolve(graph)
    some = min(graph.num_nodes, batched.settings.batch or BATCH)
    weights = 16 * sum(p.numel() for p in batched._sketched(graph).parameters())
    least = held + weights + BYTES_A_NODE * graph.num_nodes + 4 * some * batched.activations(graph)
    if least > limit:
        raise NotEnoughMemory(
            f"{too_much}, and batches of nodes about {human_bytes(least)}",
            found=human_bytes(least),
            expected=f"at most {human_bytes(limit)}",
            fix="allow more memory, or use a smaller hidden width",
        )
    return Way("batched", {"way": "batched"}, f"{too_much}, and so would its parts; batches of nodes approximate it")


def parts_for(model: LGNSDE, graph: Graph, limit: int) -> int:
    """The fewest parts such that one fits: a power of two."""
    parts, working = FEWEST_PARTS, model.working_memory(graph)
    while parts < MOST_PARTS and working > parts * TRANSIENT * limit:
        parts *= 2
    return min(parts, graph.num_nodes)
