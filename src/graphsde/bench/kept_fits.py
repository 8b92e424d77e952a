"""Fits that several questions share: what one task trained, another reads.

The standard setting, noise on features and noise on edges ask different things of the same trained model. Within
:func:`keeping_fits`, or with the variable ``GRAPHSDE_FITS`` set to a folder, it is trained once. The folder is a cache:
it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from graphsde._version import __version__
from graphsde.base import storage
from graphsde.base.errors import GraphsdeError
from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.models.files import load_model

VARIABLE = "GRAPHSDE_FITS"
COST, OPTIMISER = "cost.json", "optimiser.safetensors"


@contextlib.contextmanager
def keeping_fits(folder: Path) -> Iterator[None]:
    """Fits of this process and of workers that it starts are kept in ``folder``, unless another one is set."""
    before = os.environ.get(VARIABLE)
    os.environ.setdefault(VARIABLE, str(folder.absolute()))
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]


def fitted(make: Callable[[], Model], graph: Graph, *, to_go_on: bool = False) -> tuple[Model, dict[str, float]]:
    """A model fitted to ``graph`` and what that cost, from the folder of fits if it is there.

    A model that was read has no history. ``to_go_on``: training will continue from it, so that one without the state of
    its optimiser will not do.
    """
    model, folder = make(), os.environ.get(VARIABLE)
    to_go_on &= model.goes_on
    place = Path(folder) / _key(model, graph) if folder else None
    if place is not None and place.is_dir() and ((place / OPTIMISER).is_file() or not to_go_on):
        try:
            return _read(place, to_go_on), dict(storage.read_json(place / COST))
        except (GraphsdeError, SafetensorError, ValueError, OSError):
            shutil.rmtree(place, ignore_errors=True)
    cost = timed(model, graph)
    if place is not None:
        if not (place / OPTIMISER).is_file():  # what is there may not be enough for who wants to go on
            shutil.rmtree(place, ignore_errors=True)
        _keep(model, cost, place)
    return model, cost


def _read(place: Path, to_go_on: bool) -> Model:
    model = load_model(place)
    if to_go_on:
        model.optimiser_state = load((place / OPTIMISER).read_bytes())
    return model


def timed(model: Model, graph: Graph, **watched: Any) -> dict[str, float]:
    """Fit ``model``, and what that cost: CPU seconds, epochs; ``watched`` is passed to the fit."""
    begin = time.process_time()
    model.fit(graph, **watched)
    return {"fit_cpu_seconds": time.process_time() - begin, "epochs": float(len(model.history))}


def _key(model: Model, graph: Graph) -> str:
    """All that decides what a fit learns; settings that are left to the graph may differ from their defaults."""
    model.resolve(graph)
    masks = {role: hashlib.sha256(np.packbits(mask).tobytes()).hexdigest() for role, mask in graph.masks.items()}
    asked = {
        "model": model.name,
        "version": model.version,
        "settings": model.settings.model_dump(mode="json"),
        "given": sorted(model._given),
        "graph": graph.fingerprint,
        "masks": masks,
        "benchmark": graph.benchmark,
        "made with": [__version__, torch.__version__, torch.get_num_threads()],
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


def _keep(model: Model, cost: dict[str, float], place: Path) -> None:
    """Whole or not at all; a full disk is no reason to lose the fit itself."""
    with contextlib.suppress(OSError, GraphsdeError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as new:
            whole = Path(new) / "fit"
            whole.mkdir()
            model.save(whole)
            storage.write_json(whole / COST, cost)
            if (state := model.optimiser_state) is not None:
                (whole / OPTIMISER).write_bytes(save({name: one.contiguous() for name, one in state.items()}))
            whole.rename(place)
