"""Several processes train one model: any number of them ends at the bits of one, also if one is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from worker_trouble import DIVERGE, MARK

from cli_support import graphsde
from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.base.interrupt import Interrupted, InterruptGuard, Stopper
from graphsde.base.plugins import VARIABLE
from graphsde.datasets.source import GraphSource
from graphsde.metrics.evaluation import evaluate
from graphsde.models import LGNSDE
from graphsde.models.files import load_model
from graphsde.models.partitioned import launched_by
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint
from graphsde.runs.workers import RayLaunch, ray_session

from support import block_graph, more_data

PARTS, EPOCHS, LONG = 4, 12, 150
HERE = Path(__file__).parent


def model(**settings: Any) -> LGNSDE:
    return LGNSDE(
        **{"preset": "universal", "race": False, "way": "partitioned", "parts": PARTS, "epochs": EPOCHS} | settings
    )


def tensors(fitted: LGNSDE) -> dict[str, torch.Tensor]:
    assert fitted.module is not None
    return dict(fitted.module.state_dict())


def assert_same(found: LGNSDE, expected: LGNSDE) -> None:
    assert found.best_epoch == expected.best_epoch
    for name, tensor in tensors(expected).items():
        assert torch.equal(tensors(found)[name], tensor), name
    graph = block_graph()
    assert (found.predict(graph, samples=4).mean == expected.predict(graph, samples=4).mean).all()


class Heard(Callback):
    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.starts = self.ends = self.failures = 0

    def on_start(self, epochs: int, first: int) -> None:
        self.starts += 1

    def on_epoch(self, record: EpochRecord) -> None:
        self.epochs.append(record.epoch)

    def on_end(self, best_epoch: int) -> None:
        self.ends += 1

    def on_failure(self) -> None:
        self.failures += 1


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As workers have: torch's dense products round by the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone() -> LGNSDE:
    """All parts in this process."""
    return model().fit(block_graph())


@pytest.fixture(scope="module")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that a worker leaves when it is killed: as long as it is there, nobody is."""
    path = tmp_path_factory.mktemp("workers") / "killed"
    path.touch()
    return path


@pytest.fixture(scope="module")
def ray(mark: Path) -> Iterator[Any]:
    pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'graphsde[cluster]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, str(mark))
        patch.setenv(VARIABLE, "worker_trouble")
        with ray_session(None, 4, stopper=Stopper(), say=lambda text: None) as session:
            yield session


def test_a_killed_worker_of_ray_changes_nothing(alone: LGNSDE, ray: Any, mark: Path, tmp_path: Path) -> None:
    said: list[str] = []
    heard = Heard()
    mark.unlink()
    with launched_by(RayLaunch(2, say=said.append)):
        found = model().fit(block_graph(), callbacks=[heard], checkpoint=Checkpoint(tmp_path / "work" / "state"))
    assert int(mark.read_text()) > 0  # somebody was killed
    (loss,) = [text for text in said if "a worker was lost: resuming from the last checkpoint" in text]
    assert not loss.endswith("with epoch 1")  # what was done is not done again
    assert heard.epochs == list(range(1, EPOCHS + 1)) and (heard.starts, heard.ends, heard.failures) == (1, 1, 0)
    assert_same(found, alone)
    assert os.listdir(tmp_path / "work") == ["state"]


class StopAt(Heard):
    """As if Ctrl-C came in the middle."""

    def __init__(self, guard: InterruptGuard, epoch: int) -> None:
        super().__init__()
        self._guard, self._epoch = guard, epoch

    def on_epoch(self, record: EpochRecord) -> None:
        super().on_epoch(record)
        if record.epoch == self._epoch:
            self._guard.received = signal.SIGINT


@pytest.mark.slow
def test_an_interrupted_training_on_ray_is_gone_on_with_elsewhere(ray: Any, tmp_path: Path) -> None:
    guard, checkpoint, settings = (
        InterruptGuard(),
        Checkpoint(tmp_path / "state"),
        {"epochs": LONG, "early_stop": False},
    )
    heard = StopAt(guard, epoch=1)
    with launched_by(RayLaunch(2)), pytest.raises(Interrupted) as stopped:
        model(**settings).fit(block_graph(), callbacks=[heard], checkpoint=checkpoint, interrupt=guard)
    assert stopped.value.exit_code == 128 + signal.SIGINT and heard.failures == 1
    state = checkpoint.load()
    assert state is not None and 1 <= state.values["epoch"] < LONG
    assert_same(model(**settings).fit(block_graph(), checkpoint=checkpoint), model(**settings).fit(block_graph()))


@pytest.mark.slow
def test_rows_of_batches_that_ray_makes_are_the_same(ray: Any, tmp_path: Path) -> None:
    words = ["fit", "synthetic:300", "--way", "batched", "--no-race", "--set", "epochs=3", "--no-controls"]
    for name, more in (("one", []), ("ray", ["--engine", "ray", "--workers", "2"])):
        done = graphsde(*words, "--out", str(tmp_path / name), *more)
        assert done.exit_code == 0, done.output
    one, other = (load_model(tmp_path / name) for name in ("one", "ray"))
    for mine, theirs in zip(one.module.parameters(), other.module.parameters(), strict=True):  # type: ignore[attr-defined]
        assert torch.equal(mine, theirs)


@pytest.mark.slow
def test_a_typed_error_of_workers_is_raised_here(ray: Any, mark: Path) -> None:
    said: list[str] = []
    mark.write_text(DIVERGE)
    with launched_by(RayLaunch(2, say=said.append)), pytest.raises(GraphsdeError, match="the loss is nan") as error:
        model().fit(block_graph())
    mark.write_text("")
    assert (error.value.code, error.value.exit_code) == ("E-DIVERGED", 70)
    assert not said  # it would come again: nobody is started anew


@pytest.mark.slow
def test_one_and_four_workers_of_ray_give_the_same_model(alone: LGNSDE, ray: Any) -> None:
    for workers in (1, 4):
        with launched_by(RayLaunch(workers)):
            assert_same(model().fit(block_graph()), alone)


@pytest.mark.slow
def test_a_cluster_gives_the_same_run(ray: Any, run_alone: Path, tmp_path: Path) -> None:
    """Another process joins the session as it would join a cluster, whose machines know each other by addresses."""
    address = ray.get_runtime_context().gcs_address
    words = [*fit_words(tmp_path / "run"), "--engine", "ray", "--workers", 2, "--address", address]
    done = subprocess.run([sys.executable, "-m", "graphsde", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "prediction.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (run_alone / name).read_bytes()


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--engine", "processes"], "--engine"),
        (["--workers", "2"], "--workers"),
        (["--address", "h:1"], "--address"),
        (["--engine", "ray", "--set", "way=full"], "--engine"),
    ],
)
def test_options_that_do_not_fit_together_are_one_line(tmp_path: Path, words: list[str], place: str) -> None:
    done = graphsde("fit", "digits", "--out", tmp_path / "run", *words)
    assert done.exit_code == BadUsage.exit_code and place in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_more_workers_than_parts_are_refused() -> None:
    with launched_by(RayLaunch(PARTS + 1)), pytest.raises(BadUsage, match="E-PARTS"):
        model().fit(block_graph())


def torchrun(processes: int, *words: object, restarts: int = 0, **environment: str) -> subprocess.Popen[str]:
    """``graphsde`` in so many processes; a port of its own, since other tests run beside this one."""
    options = ["--standalone", f"--nproc-per-node={processes}", f"--max-restarts={restarts}", "--monitor-interval=0.1"]
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "graphsde", *map(str, words)]
    path = os.pathsep.join([str(HERE), *sys.path])
    given = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fit_words(out: Path, epochs: int = EPOCHS) -> list[object]:
    settings = {"way": "partitioned", "parts": PARTS, "epochs": epochs}
    pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["fit", "digits", "--out", out, "--preset", "universal", "--no-race", "--no-controls", *pairs]


@pytest.fixture(scope="module")
def run_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("alone") / "run"
    subprocess.run([sys.executable, "-m", "graphsde", *map(str, fit_words(out))], check=True, capture_output=True)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_torchrun_gives_the_same_run_also_if_one_is_killed(run_alone: Path, tmp_path: Path, processes: int) -> None:
    mark, out = tmp_path / "killed", tmp_path / "run"
    done = torchrun(processes, *fit_words(out), restarts=1, **{MARK: str(mark), VARIABLE: "worker_trouble"})
    said, complaints = done.communicate(timeout=900)
    assert done.returncode == 0, complaints
    assert mark.is_file() and f"resuming the interrupted run in {out}" in complaints
    assert said.count("The run is in") == 1  # the others are quiet
    for name in ("model.safetensors", "prediction.safetensors"):
        assert (out / name).read_bytes() == (run_alone / name).read_bytes()
    assert not (out / ".fitting").exists()


@pytest.mark.slow
def test_what_the_first_process_says_ends_the_others(tmp_path: Path) -> None:
    done = torchrun(2, "fit", "digits", "--out", tmp_path / "run", "--set", "hidden=none")
    _, complaints = done.communicate(timeout=900)
    assert done.returncode != 0 and complaints.count("E-SETTING") == 1


def test_a_signal_to_torchrun_keeps_the_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = torchrun(2, *fit_words(out, epochs=100_000), **{VARIABLE: "worker_trouble"})
    while not (out / ".fitting" / "checkpoint.safetensors").is_file():
        assert done.poll() is None, done.communicate()
        time.sleep(0.1)
    done.send_signal(signal.SIGTERM)
    _, complaints = done.communicate(timeout=900)
    assert "run the same command again to resume" in complaints
    state = Checkpoint(out / ".fitting" / "checkpoint.safetensors").load()
    assert state is not None and 1 <= state.values["epoch"] < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_a_real_graph_with_one_worker_killed(ray: Any, mark: Path, tmp_path: Path, workers: int) -> None:
    graph = GraphSource.typed(str(more_data("ms_academic_phy.npz"))).open()[0]
    expected = model().fit(graph)
    mark.unlink()
    with launched_by(RayLaunch(workers)):
        found = model().fit(graph, checkpoint=Checkpoint(tmp_path / "state"))
    assert int(mark.read_text()) > 0
    for name, tensor in tensors(expected).items():
        assert torch.equal(tensors(found)[name], tensor), name
    figures = [evaluate(one.predict(graph, samples=4), graph) for one in (found, expected)]
    assert figures[0] == figures[1]
