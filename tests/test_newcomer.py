"""From the README to a first decision, word for word, by the clock."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MINUTES = 10


def blocks(text: str) -> list[str]:
    """The README's blocks of commands, in order."""
    return re.findall(r"^```\n(.*?)^```$", text, flags=re.S | re.M)


def test_the_path_is_there() -> None:
    install, decide, *_ = blocks((ROOT / "README.md").read_text("utf-8"))
    assert install.startswith("make demo")
    words = [line.split("#")[0].split() for line in decide.splitlines()]
    assert [line[1] for line in words if line[0] == "graphsde"] == ["check", "plan", "fit", "decide", "report"]


@pytest.mark.slow
def test_a_newcomer_decides_within_ten_minutes(tmp_path: Path) -> None:
    """On a fresh clone: installation, demo, and the commands of the first decision as they stand in the README."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("a fresh clone needs git and the repository")
    clone = tmp_path / "graphsde"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    install, decide, *_ = blocks((clone / "README.md").read_text("utf-8"))
    begin = time.monotonic()
    for script in (install.splitlines()[0], decide):
        done = subprocess.run(["bash", "-euc", script], cwd=clone, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    spent = time.monotonic() - begin
    assert (clone / "runs/shop/decisions.csv").is_file() and (clone / "runs/shop/report.html").is_file()
    assert "certified" in done.stdout
    assert spent < 60 * MINUTES, f"{spent:.0f} s"
