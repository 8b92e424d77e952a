"""Fixtures shared by the tests."""

from __future__ import annotations

import pytest

from graphsde.data.graph import Graph

from support import block_graph


@pytest.fixture(scope="session")
def blocks() -> Graph:
    return block_graph()
