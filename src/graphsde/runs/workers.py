"""Several processes that train one model: Ray workers, or processes started by torchrun."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base import storage
from graphsde.base.errors import BadUsage, GraphsdeError, MissingExtra, shorten
from graphsde.base.interrupt import Interrupted, InterruptGuard, Stopper
from graphsde.base.memory import memory_limit, within_memory
from graphsde.base.plugins import VARIABLE, load_plugins, search_path
from graphsde.base.private_folder import private_folder
from graphsde.base.wire import ProcessLost, TorchWire, process_group, shares
from graphsde.graph.solution_rows import Block, Work, in_ray, rows_made
from graphsde.models.neural import NeuralModel
from graphsde.models.partitioned import launched_by, work
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint

Say = Callable[[str], None]

OBJECT_STORE_BYTES = 512 * 2**20
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
LOCAL_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray replaces a loopback address by the machine's own wherever it believes in clusters; without, all its servers
    # listen on 127.0.0.1 alone
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# Ray's workers let every other process go first (a niceness of 15): on a busy machine they hardly run at all
NICENESS = "RAY_worker_niceness"
FOLDER_PREFIX = "graphsde-ray-"
# the address of a socket must fit into 107 bytes, of which the session's folder and what Ray puts inside take 90
LONGEST_PLACE = 17


@contextlib.contextmanager
def ray_session(address: str | None, workers: int, *, stopper: Stopper | InterruptGuard, say: Say) -> Iterator[Any]:
    """The module ``ray``, connected. An open session is reused and left open.

    Args:
        address: of a cluster; ``None`` starts a session on this machine with a private token, without
            dashboard or usage statistics, bound to loopback.
        workers: processors of a local session.
    """
    start = _local_session(workers, say) if address is None else _cluster_session(address, say)
    with contextlib.ExitStack() as stack:
        if address is not None or not _is_open():
            try:
                ray = stack.enter_context(start)
            except SystemExit:
                stopper.stop(signal.SIGTERM)  # while it starts, Ray exits on that signal by itself
            stopper.reclaim()
        else:
            ray = _import_ray()
        yield ray


@contextlib.contextmanager
def rows_by_ray(workers: int | None, address: str | None, say: Say) -> Iterator[None]:
    """Inside the block, batched fits compute their rows of the solution operator on Ray workers."""

    def over(work: Work, operator: sp.csr_array, blocks: Sequence[np.ndarray]) -> Iterator[Block]:
        before = {number: signal.getsignal(number) for number in InterruptGuard.SIGNALS}
        with ray_session(address, workers or os.cpu_count() or 1, stopper=InterruptGuard(), say=say):
            for number, handler in before.items():  # Ray has replaced them with its own
                signal.signal(number, handler)
            yield from in_ray()(work, operator, blocks)

    with rows_made(over):
        yield


@functools.cache
def _token() -> str:
    """For all sessions of this process: Ray reads it only once."""
    return secrets.token_hex(32)


@contextlib.contextmanager
def _local_session(workers: int, say: Say) -> Iterator[Any]:
    say("starting Ray on this machine")
    settings = {**LOCAL_SETTINGS, "RAY_AUTH_TOKEN": _token(), "PYTHONPATH": search_path()}
    settings[NICENESS] = os.environ.get(NICENESS, "0")  # a value set by the user is kept
    before = {name: os.environ.get(name) for name in settings}
    # Ray's default folder is shared by all users of the machine, and it makes its folder readable to all: it gets
    # one inside ours
    with private_folder(FOLDER_PREFIX, longest_place=LONGEST_PLACE) as folder:
        os.environ.update(settings)
        try:
            ray = _import_ray()
            try:
                _apply_settings()
                ray.init(
                    address="local",
                    num_cpus=workers,
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE_BYTES,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(folder / "ray"),
                    **QUIET,
                )
                if ray.util.get_node_ip_address() != "127.0.0.1":
                    raise GraphsdeError(
                        "Ray would listen on all network interfaces",
                        code="E-CLUSTER",
                        found=ray.util.get_node_ip_address(),
                        expected="127.0.0.1",
                        fix="use --engine processes",
                    )
                yield ray
            finally:
                ray.shutdown()
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def _cluster_session(address: str, say: Say) -> Iterator[Any]:
    say(f"connecting to the Ray cluster at {shorten(address)}")
    ray = _import_ray()
    try:
        try:
            ray.init(address=address, **QUIET)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            raise BadUsage(
                f"can't connect to the Ray cluster at {shorten(address)}: {shorten(str(error))}",
                code="E-CLUSTER",
                fix="check --address, and that RAY_AUTH_MODE and RAY_AUTH_TOKEN are the cluster's",
            ) from None
        yield ray
    finally:
        ray.shutdown()


def _is_open() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "cluster") from None
    return ray


def _apply_settings() -> None:
    """Ray reads its settings on import; if it was imported earlier, they are set again."""
    with contextlib.suppress(ImportError, AttributeError):
        from ray._private import ray_constants
        from ray._raylet import Config  # type: ignore[attr-defined, unused-ignore]

        ray_constants.ENABLE_RAY_CLUSTER = False
        Config.initialize("")


RESTARTS = 3
"""How often workers may be lost before training gives up."""
SECONDS_PER_LOOK = 0.25
STOP, TOLD, ENDED = "stop", "told.jsonl", "ended.json"


@dataclass
class RayLaunch:
    """Trains the parts of a job with Ray Train: one process for each worker, each with some of the parts.

    If a worker dies, all are stopped and restarted from the last checkpoint. The job's folder
    must be visible to all machines under the same path; progress and stop requests go through it.

    Args:
        workers: how many; default one per processor of this machine, at most one per part.
        address: of a cluster; ``None`` starts Ray on this machine, reachable from it alone.
        say: called with progress messages.
    """

    workers: int | None = None
    address: str | None = None
    say: Say = lambda text: None

    def __call__(
        self,
        folder: Path,
        parts: int,
        callbacks: Sequence[Callback],
        checkpoint: Checkpoint | None,
        interrupt: InterruptGuard | None,
    ) -> NeuralModel:
        workers = min(_processors(), parts) if self.workers is None else self.workers
        shares(parts, workers)  # refuse before anything is started
        folder = folder.resolve()
        kept = _kept(folder, checkpoint)
        guard = interrupt or InterruptGuard()
        listener = _Listener(folder / TOLD, callbacks, self.say)
        settings = {
            "folder": str(folder),
            "parts": parts,
            "checkpoint": str(kept.path),
            "every": kept.every,
            "plugins": os.environ.get(VARIABLE, ""),
            "memory": memory_limit(),
            "local": self.address is None,
        }
        try:
            with ray_session(self.address, workers, stopper=guard, say=self.say):
                self._train(workers, folder, settings, guard, listener)
            _raise_what_ended_it(folder)
        except BaseException:
            for callback in callbacks:
                callback.on_failure()
            raise
        # the workers leave the last state: what follows after restoring the best epoch is done here
        fitted = work(folder, range(parts), None, checkpoint=kept)
        assert fitted is not None
        return fitted

    def _train(
        self, workers: int, folder: Path, settings: dict[str, Any], guard: InterruptGuard, listener: _Listener
    ) -> None:
        trainer = _trainer(workers, settings)
        failures: list[BaseException] = []

        def run() -> None:
            try:
                trainer.fit()
            except BaseException as error:
                failures.append(error)

        # in a thread, where Ray Train leaves the signals alone
        thread = threading.Thread(target=run, daemon=True, name="ray-train")
        thread.start()
        stopping = False
        while thread.is_alive():
            thread.join(SECONDS_PER_LOOK)
            listener.hear()
            if guard.received is not None and not stopping:
                stopping = True
                storage.write_text(folder / STOP, str(guard.received))
            if stopping and not listener.begun:  # no worker is ready to stop in an orderly way yet
                raise Interrupted(guard.received or signal.SIGINT)
        listener.hear()
        if failures and not (folder / ENDED).is_file():
            raise GraphsdeError(
                f"the workers were lost {RESTARTS + 1} times: {_last_line(failures[0])}",
                code="E-WORKER",
                fix="run the same command again to resume from the last checkpoint",
            ) from None


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _trainer(workers: int, settings: dict[str, Any]) -> Any:
    try:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.backend import Backend
        from ray.train.torch import TorchConfig, TorchTrainer
    except ImportError:
        raise MissingExtra("ray[train]", "cluster") from None

    class OwnGroup(TorchConfig):
        """The processes join by themselves: Ray Train's own store would listen on all network interfaces."""

        @property
        def backend_cls(self) -> Any:
            return Backend

    return TorchTrainer(
        train_part,
        train_loop_config=settings,
        torch_config=OwnGroup(),
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="graphsde",
            storage_path=str(Path(settings["folder"]) / "ray"),
            failure_config=FailureConfig(max_failures=RESTARTS),
        ),
    )


def train_part(settings: dict[str, Any]) -> None:
    """What a worker of Ray does."""
    from ray import train

    load_plugins(settings["plugins"])
    folder = Path(settings["folder"])
    rank, size = train.get_context().get_world_rank(), train.get_context().get_world_size()
    store = _store_of_ray(folder, rank, size, local=settings["local"])
    try:
        with within_memory(settings["memory"]), process_group(store, rank, size, local=settings["local"]):
            wire = TorchWire(settings["parts"])
            work(
                folder,
                wire.held,
                wire,
                callbacks=[_Teller(folder / TOLD)],
                checkpoint=Checkpoint(Path(settings["checkpoint"]), settings["every"]),
                interrupt=_StopFile(folder / STOP),
            )
    except ProcessLost:
        if not (folder / ENDED).is_file():
            raise  # Ray restarts all of them
    except Interrupted as stop:
        storage.write_json(folder / ENDED, {"interrupted": stop.number})
    except GraphsdeError as error:  # would repeat on every restart
        storage.write_json(folder / ENDED, {"error": error.as_dict(), "exit_code": error.exit_code})


def _store_of_ray(folder: Path, rank: int, size: int, *, local: bool) -> Any:
    """Where the workers find each other: a file on one machine, otherwise a socket of the first one's."""
    from ray.train.collective import broadcast_from_rank_zero
    from torch import distributed

    if local:
        return distributed.FileStore(str(folder / broadcast_from_rank_zero(f"store-{secrets.token_hex(8)}")), size)
    import ray

    own = None
    if rank == 0:
        host = ray.util.get_node_ip_address()
        own = distributed.TCPStore(host, 0, size, is_master=True, wait_for_workers=False)
    place = broadcast_from_rank_zero(None if own is None else [own.host, own.port])
    return own or distributed.TCPStore(place[0], place[1], size, is_master=False)


class _StopFile(InterruptGuard):
    """A signal that the process which started the workers has received."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def received(self) -> int | None:  # type: ignore[override]
        with contextlib.suppress(OSError, ValueError):
            return int(self._path.read_text(encoding="utf-8"))
        return None


class _Teller(Callback):
    """Records what the process that started the workers shows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _tell(self, name: str, *values: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps([name, *values]) + "\n")

    def on_start(self, epochs: int, first: int) -> None:
        self._tell("start", epochs, first)

    def on_epoch(self, record: EpochRecord) -> None:
        self._tell("epoch", record.as_dict())

    def on_note(self, text: str) -> None:
        self._tell("note", text)

    def on_race(self, done: int, total: int) -> None:
        self._tell("race", done, total)

    def on_end(self, best_epoch: int) -> None:
        self._tell("end", best_epoch)


@dataclass
class _Listener:
    """Forwards what a :class:`_Teller` has written; epochs repeated after a loss are reported once."""

    path: Path
    callbacks: Sequence[Callback]
    say: Say
    begun: bool = False
    _place: int = 0
    _last: dict[str, int] = field(default_factory=dict)

    def hear(self) -> None:
        with contextlib.suppress(FileNotFoundError), open(self.path, encoding="utf-8") as file:
            file.seek(self._place)
            while (line := file.readline()).endswith("\n"):
                self._place = file.tell()
                self._hand_on(*json.loads(line))

    def _hand_on(self, name: str, *values: Any) -> None:
        if name in ("epoch", "race", "start"):
            reached = int(values[0]["epoch"] if name == "epoch" else values[0])
            if name == "start" and self.begun:
                self.say(f"a worker was lost: resuming from the last checkpoint, at epoch {values[1]}")
            self.begun = True
            if reached <= self._last.get(name, 0):
                return
            self._last[name] = reached
        if name == "epoch":
            values = (EpochRecord(**values[0]),)
        for callback in self.callbacks:
            getattr(callback, f"on_{name}")(*values)


def _raise_what_ended_it(folder: Path) -> None:
    """How the workers ended before the last epoch."""
    if not (folder / ENDED).is_file():
        return
    ended = storage.read_json(folder / ENDED)
    if "interrupted" in ended:
        raise Interrupted(ended["interrupted"])
    error = GraphsdeError(**ended["error"])
    error.exit_code = ended["exit_code"]
    raise error


def _kept(folder: Path, checkpoint: Checkpoint | None) -> Checkpoint:
    """A checkpoint that other processes find too."""
    if checkpoint is None:
        return Checkpoint(folder / "checkpoint.safetensors")
    return Checkpoint(checkpoint.path.resolve(), checkpoint.every)


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return shorten(lines[-1].strip(), 300) if lines else type(error).__name__


TORCHRUN = "TORCHELASTIC_RUN_ID"
FAREWELL_SECONDS = 10.0
FAULT = GraphsdeError.exit_code


def started_by_torchrun() -> bool:
    """Whether this is one of several processes of torchrun."""
    return TORCHRUN in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


class Torchrun:
    """The processes that torchrun started: the first runs the command, the others join its training."""

    def __init__(self) -> None:
        from torch.distributed import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        store, self.rank, self.size = next(iter(rendezvous("env://", timeout=timedelta(days=1))))
        # messages from before a restart must be ignored
        self.store = PrefixStore(f"graphsde/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        self._local = int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == self.size
        self._messages = 0

    def __call__(
        self,
        folder: Path,
        parts: int,
        callbacks: Sequence[Callback],
        checkpoint: Checkpoint | None,
        interrupt: InterruptGuard | None,
    ) -> NeuralModel:
        """Train with all processes; the first one calls."""
        shares(parts, self.size)
        kept = _kept(folder.resolve(), checkpoint)
        place = {"folder": str(folder.resolve()), "checkpoint": str(kept.path), "every": kept.every}
        self._post({**place, "parts": parts, "memory": memory_limit()})
        fitted = self._join(folder.resolve(), parts, kept, interrupt, callbacks)
        assert fitted is not None
        return fitted

    def end(self, code: int) -> None:
        """Tell the others how the command has ended."""
        self._post({"exit": code})

    def follow(self) -> int:
        """Join training until the first process ends; returns its exit code."""
        while True:
            message = self._next()
            assert message is not None
            if "exit" in message:
                return int(message["exit"])
            checkpoint = Checkpoint(Path(message["checkpoint"]), message["every"])
            try:
                with InterruptGuard() as guard, within_memory(message["memory"]):
                    self._join(Path(message["folder"]), message["parts"], checkpoint, guard)
            except ProcessLost:
                # if the first process has an error of its own, it reports it at once
                farewell = self._next(FAREWELL_SECONDS)
                return FAULT if farewell is None else int(farewell.get("exit", FAULT))
            except GraphsdeError:
                pass  # the first process has the same error and will report it

    def _join(
        self,
        folder: Path,
        parts: int,
        checkpoint: Checkpoint,
        interrupt: InterruptGuard | None,
        callbacks: Sequence[Callback] = (),
    ) -> NeuralModel | None:
        from torch.distributed import PrefixStore

        store = PrefixStore(f"group/{self._messages}", self.store)
        with process_group(store, self.rank, self.size, local=self._local):
            wire = TorchWire(parts)
            return work(folder, wire.held, wire, callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt)

    def _post(self, message: dict[str, Any]) -> None:
        self.store.set(f"message/{self._messages}", json.dumps(message))
        self._messages += 1

    def _next(self, seconds: float = float("inf")) -> dict[str, Any] | None:
        key, end = f"message/{self._messages}", time.monotonic() + seconds
        while not self.store.check([key]):  # waiting in torch would keep signals from being seen
            if time.monotonic() > end:
                return None
            time.sleep(SECONDS_PER_LOOK)
        self._messages += 1
        return dict(json.loads(self.store.get(key)))


def run_under_torchrun(program: Callable[[], None]) -> None:
    """``program`` in the first process, which ends with an exit code as all the others do."""
    group = Torchrun()
    if group.rank:
        load_plugins()
        raise SystemExit(group.follow())
    code = FAULT
    try:
        with launched_by(group):
            program()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    finally:
        group.end(code)
