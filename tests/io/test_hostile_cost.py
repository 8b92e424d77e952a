"""A hostile file of a few megabytes costs at most 200 MB, whatever it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hostile_files import HOSTILE

LARGEST = 200_000  # kB

MEASURE = """
import sys
import psutil, pyarrow.compute, pyarrow.parquet, yaml
from graphsde.io.read import read
from graphsde.io import csv_table, graphml, npz, tables
from graphsde.base.errors import GraphsdeError

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])

for path in sys.argv[1:]:
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    try:
        read(path)
        code = "ok"
    except GraphsdeError as error:
        code = error.code
    print(peak() - before, code)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc")
def test_memory(tmp_path: Path) -> None:
    paths = [str(build(tmp_path / name)) for name, (build, _) in HOSTILE.items()]
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    for (name, (_, code)), line in zip(HOSTILE.items(), done.stdout.splitlines(), strict=True):
        grown, found = line.split()
        assert found == code, name
        assert int(grown) < LARGEST, f"{name} took {grown} kB"
