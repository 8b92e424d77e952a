"""Fixtures shared by the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from graphsde.graph.graph import Graph

from support import block_graph

# no test depends on how busy the machine is
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def blocks() -> Graph:
    return block_graph()


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache for benchmark graphs, so that no test reads what another machine's user has in theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPHSDE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
