"""Errors, names, seeds, memory and files: the ground floor."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from graphsde.base import memory, seeds, storage
from graphsde.base.errors import BadInput, BadUsage, MissingExtra, StorageError, UnknownName, shorten
from graphsde.base.registry import Registry
from graphsde.prediction import ClassPrediction, entropy


def test_an_error_tells_what_where_and_what_to_do() -> None:
    error = BadInput("two nodes have one id", code="E-NODE-DUP", place="nodes.csv, line 3", found="a", fix="rename one")
    assert str(error) == "E-NODE-DUP: two nodes have one id. Where: nodes.csv, line 3. Found: a. Fix: rename one."
    assert error.as_dict()["code"] == "E-NODE-DUP" and error.exit_code == 65


def test_a_missing_extra_is_one_line_that_names_it() -> None:
    error = MissingExtra("torch_geometric", "pyg")
    assert "graphsde[pyg]" in str(error) and "\n" not in str(error) and error.exit_code == 69


@pytest.mark.parametrize(
    ("raw", "shown"),
    [("plain", "plain"), ("a\x1b[31mb", "a\\x1b[31mb"), ("a\nb", "a\\nb"), ("\u202eabc", "\\u202eabc"), (3, "3")],
)
def test_values_are_shown_harmlessly(raw: object, shown: str) -> None:
    assert shorten(raw) == shown


def test_long_values_are_cut() -> None:
    assert len(shorten("x" * 10_000)) == 200


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    registry: Registry[int] = Registry("model")
    registry.add("gcn", 1, summary="one")
    registry.add("gat", 2, summary="two")
    assert registry.get("gcn") == 1 and list(registry) == ["gcn", "gat"]
    with pytest.raises(UnknownName, match="did you mean 'gcn'"):
        registry.get("gcnn")
    with pytest.raises(BadUsage, match="already registered"):
        registry.add("gcn", 3, summary="three")


def test_streams_are_pure_independent_and_checked() -> None:
    assert seeds.derive(1, "a") == seeds.derive(1, "a")
    assert len({seeds.derive(s, p) for s in range(50) for p in "abcd"}) == 200
    assert seeds.derive(1, "ab", "c") != seeds.derive(1, "a", "bc")
    for bad in (-1, 2**63, 1.5, True, "1"):
        with pytest.raises(BadUsage):
            seeds.derive(bad, "a")  # type: ignore[arg-type]


def test_memory_limit_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.LIMIT_VARIABLE, "10")
    assert memory.available_bytes() == 10 * 2**20
    memory.require_memory(2**20, "this", "nothing")
    with pytest.raises(memory.NotEnoughMemory, match="21 MB"):
        memory.require_memory(20 * 2**20, "this", "less of it")
    monkeypatch.setenv(memory.LIMIT_VARIABLE, "plenty")
    with pytest.raises(BadUsage):
        memory.available_bytes()


@pytest.mark.parametrize(
    ("text", "count"),
    [("512M", 2**29), ("2G", 2**31), ("2g", 2**31), ("1.5GiB", 3 * 2**29), (" 2 GB ", 2 * 10**9), (".5T", 2**39)],
)
def test_amounts_of_memory(text: str, count: int) -> None:
    assert memory.parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "2", "-2G", "2 gallons", "1e3M", "nanG", "2GiBB"])
def test_what_is_no_amount_of_memory(text: str) -> None:
    with pytest.raises(BadUsage, match="not an amount of memory"):
        memory.parse_bytes(text)


def test_a_limit_leaves_what_the_process_does_not_hold_yet() -> None:
    outside, held = memory.available_bytes(), memory.anonymous_bytes()
    assert memory.memory_limit() is None
    with memory.within_memory(held + 2**26):
        assert memory.memory_limit() == held + 2**26
        assert 0 < memory.available_bytes() <= 2**26 + 2**25 < outside
        with memory.within_memory(None):  # changes nothing
            assert memory.memory_limit() == held + 2**26
        with pytest.raises(memory.NotEnoughMemory):
            memory.require_memory(2**28, "this", "less of it")
        with memory.within_memory(1):
            assert memory.available_bytes() == 0
    assert memory.memory_limit() is None


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "file.txt"
    storage.write_text(path, "old")

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(StorageError, match=r"file\.txt: No space left") as caught:
        storage.write_text(path, "new")
    assert caught.value.exit_code == 74
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_a_prediction_is_checked() -> None:
    probs = np.full((2, 3, 2), 0.5)
    with pytest.raises(BadInput, match="don't match 4 nodes"):
        ClassPrediction(probs, np.arange(4), ("a", "b"), "samples")
    with pytest.raises(Exception, match="1 nodes have probabilities that are not finite"):
        ClassPrediction(np.where(np.arange(3)[:, None] == 1, np.nan, probs), np.arange(3), ("a", "b"), "samples")
    with pytest.raises(BadInput, match="concentrations"):
        ClassPrediction(probs[:1], np.arange(3), ("a", "b"), "dirichlet")


def test_entropy_of_certainty_is_zero_and_of_uniform_is_log_n() -> None:
    np.testing.assert_allclose(entropy(np.array([[1.0, 0, 0], [1 / 3] * 3])), [0, np.log(3)], atol=1e-15)


def test_a_subset_keeps_everything_together() -> None:
    rng = np.random.default_rng(0)
    alpha = rng.random((4, 2)) + 1
    whole = ClassPrediction(
        (alpha / alpha.sum(1, keepdims=True))[None], np.arange(4) * 10, ("a", "b"), "dirichlet", alpha=alpha
    )
    part = whole.subset(np.array([2, 0]))
    assert part.ids.tolist() == [20, 0]
    np.testing.assert_array_equal(part.total, whole.total[[2, 0]])
    np.testing.assert_array_equal(part.aleatoric, whole.aleatoric[[2, 0]])
