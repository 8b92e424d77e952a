"""Room for large arrays: plain memory, or under a limit a file that is gone with the array."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import StorageError
from graphsde.base.memory import anonymous_bytes, within_memory
from graphsde.base.scratch import scratch_array


def test_without_a_limit_it_is_memory() -> None:
    assert type(scratch_array((1000, 3), np.float32)) is np.ndarray


def test_a_small_array_is_memory_under_any_limit() -> None:
    with within_memory(2**31):
        assert type(scratch_array((1000,), np.int64)) is np.ndarray


def test_a_large_one_is_a_file_that_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with within_memory(2**20):
        array = scratch_array((2000, 16), np.float64)
    assert isinstance(array, np.memmap) and array.shape == (2000, 16) and array.dtype == np.float64
    array[:] = np.arange(32_000).reshape(2000, 16)
    assert array.sum() == 31_999 * 16_000
    assert list(tmp_path.iterdir()) == []


def test_its_pages_are_not_anonymous() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not say which memory is anonymous")
    gc.collect()
    before = anonymous_bytes()
    with within_memory(2**25):
        array = scratch_array((2**26,), np.uint8)
    array[:] = 1
    assert anonymous_bytes() - before < 2**24
    plain = np.ones(2**26, dtype=np.uint8)  # what it would have been
    assert anonymous_bytes() - before > 2**25 and plain[0] == array[0]


def test_a_full_disk_is_told_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "posix_fallocate"):
        pytest.skip("this system can't reserve room in a file")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with within_memory(2**20), pytest.raises(StorageError, match="No space left"):
        scratch_array((2**20,), np.float64)
