"""What a killed bench on Ray leaves among temporary files, the next one clears."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from graphsde.base.private_folder import clear_abandoned
from graphsde.runs import workers


def test_the_engine_uses_such_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray itself: a folder of a dead session goes when the next one starts, ours when it ends."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(workers, "LONGEST_PLACE", 1000)
    dead = tmp_path / f"{workers.FOLDER_PREFIX}dead"
    dead.mkdir()
    (dead / ".lock").write_text("4194305")
    seen: list[str] = []

    class Ray:
        class util:
            @staticmethod
            def get_node_ip_address() -> str:
                return "127.0.0.1"

        def init(self, _temp_dir: str, **settings: Any) -> None:
            assert not dead.exists()
            seen.append(_temp_dir)

        def shutdown(self) -> None:
            assert Path(seen[0]).parent.is_dir()

    monkeypatch.setattr(workers, "_import_ray", Ray)
    with workers._local_session(1, lambda text: None):
        (folder,) = tmp_path.iterdir()
        assert seen == [str(folder / "ray")]
    assert list(tmp_path.iterdir()) == []


def test_sockets_fit() -> None:
    longest = "graphsde-ray-12345678/ray/session_2026-11-20_10-11-12_123456_4194304/sockets/plasma_store"
    assert workers.LONGEST_PLACE + 1 + len(longest) <= 107
    assert longest.startswith(workers.FOLDER_PREFIX)


@pytest.mark.slow
def test_a_session_that_is_killed() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'graphsde[cluster]'")
    prefix = "graphsde-ray-t-"
    code = (
        "import time\nfrom graphsde.base.interrupt import Stopper\nfrom graphsde.runs import workers\n"
        f"workers.FOLDER_PREFIX = {prefix!r}\n"
        "with workers.ray_session(None, 1, stopper=Stopper(), say=lambda text: None) as ray:\n"
        "    print('FOLDER', ray._private.worker._global_node.get_session_dir_path(), flush=True)\n    time.sleep(3600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("FOLDER"))
        folder = Path(line.split()[1]).parents[1]
        assert folder.name.startswith(prefix) and clear_abandoned(folder.parent, prefix) == []
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
    psutil.wait_procs(children, timeout=600)
    assert folder.is_dir()
    assert clear_abandoned(folder.parent, prefix) == [folder] and not folder.exists()
