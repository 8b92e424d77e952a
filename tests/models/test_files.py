"""A model on disk that is replaced while somebody reads it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import graphsde as gs
from graphsde.base.errors import BadInput
from graphsde.models import files, load_model
from graphsde.models.files import DESCRIPTION, TENSORS
from graphsde.models.gcn import GCN


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An old and a new model."""
    graph = gs.make_split(gs.load("digits"), "fractions", seed=0).apply(gs.load("digits"))
    folders = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp(f"model{seed}")
        GCN(seed=seed, epochs=1).fit(graph).save(folder)
        folders.append(folder)
    return folders[0], folders[1]


@pytest.fixture
def half_replaced(saved: tuple[Path, Path], tmp_path: Path) -> Path:
    """The tensors are new, their description is still the old one."""
    old, new = saved
    shutil.copy(old / DESCRIPTION, tmp_path)
    shutil.copy(new / TENSORS, tmp_path)
    return tmp_path


def test_a_reader_between_the_two_files_waits_for_the_second(
    saved: tuple[Path, Path], half_replaced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.time, "sleep", lambda seconds: shutil.copy(saved[1] / DESCRIPTION, half_replaced))
    assert load_model(half_replaced).settings.seed == 1


def test_damage_is_not_waited_for_twice(half_replaced: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(files.time, "sleep", waits.append)
    with pytest.raises(BadInput) as caught:
        load_model(half_replaced)
    assert caught.value.code == "E-MODEL-HASH" and len(waits) == 1
