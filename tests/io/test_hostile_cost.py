"""A hostile file of a few megabytes costs at most 200 MB, whatever it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from file_makers import GRAPHML, declared_size, file, member, npy, tables

LARGEST = 200_000  # kB
SIZE = 5_000_000

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

_columns = ",".join(f"c{column}" for column in range(99_999))
_defaults = "".join(f'<key id="k{n}" for="node" attr.type="int"><default>1</default></key>' for n in range(20_000))
_many = "".join(f'<node id="{n}"/>' for n in range(100_000))
HOSTILE = {
    "line": (tables(nodes="id,x\n" + "a" * SIZE), "E-LINE-LEN"),
    "wide": (tables(nodes=f"id,{_columns}\n" + f"a{',1' * 99_999}\n" * 20), "E-NODE-DUP"),
    "wide text": (tables(nodes=f"id,{_columns}\n" + f"a{',b' * 99_999}\n" * 20), "E-FEAT-TYPE"),
    "blank": (tables(nodes="id,x\n" + "\n" * SIZE), "E-EMPTY"),
    "quotes": (tables(nodes="id,x\n" + '"\n' * (SIZE // 2)), "E-ROW-LEN"),
    "open quote": (tables(nodes='id,x\n"' + "a\n" * (SIZE // 2)), "E-QUOTE"),
    "ragged": (tables(nodes="id,x\n" + "1\n" * (SIZE // 2)), "E-ROW-LEN"),
    "settings": (tables(settings="classes:\n" + "- a\n" * 240_000), "E-YAML"),
    "zip directory": (declared_size(1_600_000_000), "E-BOMB"),
    "array header": (member("features.npy", npy((10**6, 10**6))), "E-HEADER-LIE"),
    "defaults": (file("g.graphml", f"{GRAPHML}{_defaults}<graph>{_many}</graph></graphml>".encode()), "E-BOMB"),
    "tag": (file("g.graphml", f"{GRAPHML}<graph><node id='{'a' * SIZE}'/></graph></graphml>".encode()), "E-LINE-LEN"),
    "drawings": (file("g.graphml", f"{GRAPHML}{'<a/>' * (SIZE // 4)}</graphml>".encode()), "E-BOMB"),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc")
def test_memory(tmp_path: Path) -> None:
    paths = [str(build(tmp_path / name)) for name, (build, _) in HOSTILE.items()]
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    for (name, (_, code)), line in zip(HOSTILE.items(), done.stdout.splitlines(), strict=True):
        grown, found = line.split()
        assert found == code, name
        assert int(grown) < LARGEST, f"{name} took {grown} kB"
