"""Fixtures shared by the tests."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.target import ClassTarget
from graphsde.prediction import ClassPrediction

from support import block_graph

# no test depends on how busy the machine is, and the suite says the same of the same code every time it runs;
# HYPOTHESIS_PROFILE=search looks for examples that nobody has tried yet (`make search`)
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **_UNHURRIED)
settings.register_profile("search", print_blob=True, **_UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# a process builds its command line once, however many commands the tests give in it
typer.testing._get_command = functools.cache(typer.main.get_command)

# the files that take a minute or more: a worker that begins one of them last leaves the other waiting
LONGEST = ("test_page_browser.py", "test_ray_engine.py", "test_faults.py", "test_engines.py", "test_workers.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def blocks() -> Graph:
    return block_graph()


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache for benchmark graphs, so that no test reads what another machine's user has in theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHSDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def make_graph() -> Callable[..., Graph]:
    def make(dense: np.ndarray, *, directed: bool = False, **masks: np.ndarray) -> Graph:
        nodes = len(dense)
        return Graph(
            adjacency=Adjacency(sp.csr_array(np.asarray(dense, dtype=np.float32)), directed=directed),
            features=np.zeros((nodes, 1), dtype=np.float32),
            node_ids=np.arange(nodes),
            target=ClassTarget(np.zeros(nodes, dtype=np.int64), ("a", "b", "c")),
            masks={name: np.asarray(mask, dtype=bool) for name, mask in masks.items()},
        )

    return make


@pytest.fixture
def make_prediction() -> Callable[..., ClassPrediction]:
    def make(
        kind: str = "samples", *, samples: int = 5, nodes: int = 20, classes: int = 4, seed: int = 0
    ) -> ClassPrediction:
        rng = np.random.default_rng(seed)
        if kind == "dirichlet":
            alpha = 1.0 + rng.gamma(1.0, 5.0, size=(nodes, classes))
            probs = (alpha / alpha.sum(-1, keepdims=True))[None]
            logits = np.log(alpha)[None]
        else:
            alpha = None
            logits = 2.0 * rng.normal(size=(samples if kind == "samples" else 1, nodes, classes))
            probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        names = tuple(f"class {c}" for c in range(classes))
        return ClassPrediction(probs, np.arange(nodes), names, kind, logits=logits, alpha=alpha)  # type: ignore[arg-type]

    return make
