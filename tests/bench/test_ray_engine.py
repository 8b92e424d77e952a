"""The Ray engine: the same bits as elsewhere, deaths survived, and nothing that listens to the network."""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
from bench_attacks import SIGNALS, interrupted, kill_and_resume, survives_failing_disks
from bench_support import HURRIED, CommandLine, attempts, bench, cells_of, outcomes, timeless

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.base.interrupt import Stopper
from graphsde.base.plugins import VARIABLE
from graphsde.bench.cells import ModelSpec, plan_cells
from graphsde.bench.engines import Limits
from graphsde.bench.engines.ray_cluster import _Shift
from graphsde.bench.journal import make_record
from graphsde.bench.table import tabulate
from graphsde.runs.workers import ray_session

pytest.importorskip("ray", reason="Ray is not installed: pip install 'graphsde[cluster]'")
# one session for all of them: `--dist loadfile` keeps a file in one process


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with (
        pytest.MonkeyPatch.context() as patch,
        ray_session(None, 2, stopper=Stopper(), say=lambda text: None) as ray,
    ):
        patch.setenv(VARIABLE, "bench_parts")
        yield ray


def test_nothing_listens_beyond_this_machine(session: Any) -> None:
    """Ray's own default is to listen on every interface."""
    listening = []
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        for socket in process.net_connections("inet"):
            if socket.status == psutil.CONN_LISTEN:
                listening.append((process.name(), ipaddress.ip_address(socket.laddr.ip)))
    assert {name for name, _ in listening} >= {"gcs_server", "raylet"}
    for name, address in listening:
        plain = getattr(address, "ipv4_mapped", None) or address
        assert plain.is_loopback, f"{name} listens on {address}"


def test_the_session_wants_a_token_and_tells_nobody(session: Any) -> None:
    assert os.environ["RAY_AUTH_MODE"] == "token" and len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    folders = Path(session._private.worker._global_node.get_session_dir_path()).parents
    assert folders[1].name.startswith("graphsde-") and folders[1].stat().st_mode & 0o077 == 0
    assert not session._private.worker._global_node.webui_url  # no dashboard


def test_workers_are_not_behind_every_other_process(session: Any) -> None:
    assert session.get(session.remote(num_cpus=0)(lambda: os.nice(0)).remote()) == os.nice(0)


@pytest.mark.parametrize("right", [True, False])
def test_whoever_has_not_the_token_is_refused(session: Any, right: bool) -> None:
    code = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]); print('in')"
    address = session.get_runtime_context().gcs_address
    env = dict(os.environ) if right else {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, check=False, env=env)
    assert (done.stdout == "in\n") == right
    assert right or "AuthenticationError" in done.stderr


def test_ray_and_serial_agree_bit_by_bit(graph_folder: Path, session: Any) -> None:
    cells = cells_of(graph_folder, range(6))
    cells += plan_cells("misclassification", {}, [str(graph_folder)], [ModelSpec("gcn", {"epochs": 5})], [7])
    one, other = outcomes("serial", cells, Limits()), outcomes("ray", cells, Limits())
    for seed in one:
        assert timeless(other[seed]) == timeless(one[seed]) and other[seed].curves == one[seed].curves
    tables = [tabulate(make_record(c, found[c.seed], "", {}) for c in cells) for found in (one, other)]
    assert tables[0] == tables[1] and {row.model for row in tables[0]} == {"label-propagation", "gcn[epochs=5]"}
    assert session.is_initialized()


def test_a_cluster_with_fewer_processors_than_asked_for_is_enough(graph_folder: Path) -> None:
    def shift(said: list[str]) -> _Shift:
        return _Shift(MagicMock(), cells_of(graph_folder, range(9)), 4, Limits(), Stopper(), said.append)

    said: list[str] = []
    some = shift(said)
    some.anybody_came, some.crew = True, [MagicMock(), MagicMock()]
    some._did_not_come("hung")
    assert some.size == 2 and "continuing with 2" in said[0]
    with pytest.raises(GraphsdeError, match="no processor of the cluster became free"):
        shift([])._did_not_come("hung")
    broken = shift([])
    broken.anybody_came = True
    broken._did_not_come("error: x")
    broken._did_not_come("error: x")
    with pytest.raises(GraphsdeError, match="workers can't start"):
        broken._did_not_come("error: x")


@pytest.mark.slow
def test_trouble_stays_with_its_cell_on_ray(graph_folder: Path, tmp_path: Path, session: Any) -> None:
    """Killed (5 times), out of memory (3), out of time, broken."""
    seeds = [*range(6), 7, 8, 9, 11]
    cells = cells_of(graph_folder, seeds, "trouble", folder=str(tmp_path))
    found = outcomes("ray", cells)
    assert {seed: outcome.cause for seed, outcome in found.items() if outcome.status == "failed"} == {
        2: "killed",
        3: "memory",
        4: "memory",
        5: "memory",
        7: "time",
        8: "error: ZeroDivisionError: \\x1b[31mred",
        9: "error: E-DIVERGED: the state is not finite.",
    }
    assert {seed: found[seed].attempts for seed in (0, 1, 2, 11)} == {0: 2, 1: 2, 2: 3, 11: 1}
    assert {seed: attempts(tmp_path, seed) for seed in seeds} == {seed: found[seed].attempts for seed in seeds}
    after = {seed: (tmp_path / f"attempts-{seed}").read_text().split()[-1] for seed in (7, 8, 9, 11)}
    assert after[7] not in (after[8], after[9], after[11])  # whoever ran out of time is not asked again
    untroubled = outcomes("serial", cells_of(graph_folder, (0, 1, 11)))
    for seed in (0, 1, 11):
        assert found[seed].metrics == untroubled[seed].metrics


@pytest.mark.slow
def test_a_cell_that_hangs_has_three_attempts_on_ray(graph_folder: Path, tmp_path: Path, session: Any) -> None:
    (found,) = outcomes("ray", cells_of(graph_folder, [6], "trouble", folder=str(tmp_path)), HURRIED).values()
    assert (found.cause, found.attempts) == ("hung", 3)


@pytest.mark.slow
def test_a_failing_disk_while_actors_compute(graph_folder: Path, tmp_path: Path, session: Any) -> None:
    bench(graph_folder, tmp_path / "whole")
    survives_failing_disks(graph_folder, tmp_path, tmp_path / "whole", engine="ray", workers=1)


@pytest.fixture
def address(session: Any) -> list[object]:
    """A second runner joins the session as it would join a cluster."""
    return ["--engine", "ray", "--workers", 1, "--address", session.get_runtime_context().gcs_address]


def test_killed_once_on_ray(
    graph_folder: Path, tmp_path: Path, command_line: CommandLine, address: list[object]
) -> None:
    kill_and_resume(graph_folder, tmp_path, command_line, address, kills=1, seeds=25)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_ends_a_bench_on_ray(
    graph_folder: Path,
    tmp_path: Path,
    command_line: CommandLine,
    address: list[object],
    number: signal.Signals,
    code: int,
) -> None:
    interrupted(graph_folder, tmp_path, command_line, address, number, code)


def test_a_wrong_address_is_said(graph_folder: Path, tmp_path: Path, command_line: CommandLine, session: Any) -> None:
    words = ["bench", "tiny", "--datasets", graph_folder, "--models", "mlp", "--seeds", 1, "--engine", "ray"]
    code, said = command_line.run(*words, "--address", "nowhere", "--out", tmp_path / "out", log=tmp_path / "log")
    assert code == BadUsage.exit_code and "E-CLUSTER" in said
