"""A Ray session: a private one on this machine that only this machine can reach, or somebody's cluster."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphsde.errors import BadUsage, GraphsdeError, MissingExtra, shorten
from graphsde.runs.engines.base import Say
from graphsde.runs.plugins import search_path
from graphsde.runs.stopping import Stopper

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
# the address of a socket in the session's folder must fit into 107 bytes
LONGEST_FOLDER = 40


@contextlib.contextmanager
def ray_session(address: str | None, workers: int, *, stopper: Stopper, say: Say) -> Iterator[Any]:
    """The module ``ray``, connected. A session that is open already is used and left open.

    Args:
        address: of a cluster; ``None`` starts a session on this machine with a token that nobody else has, without
            dashboard or usage statistics, bound to loopback.
        workers: processors of a local session.
    """
    start = _local_session(workers, say) if address is None else _cluster_session(address, say)
    with contextlib.ExitStack() as stack:
        if address is not None or not _is_open():
            try:
                ray = stack.enter_context(start)
            except SystemExit:
                stopper.stop(signal.SIGTERM)  # while it starts, Ray answers that signal with an exit of its own
            stopper.reclaim()
        else:
            ray = _import_ray()
        yield ray


@contextlib.contextmanager
def _local_session(workers: int, say: Say) -> Iterator[Any]:
    say("starting Ray on this machine")
    folder = _private_folder()
    settings = {**LOCAL_SETTINGS, "RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": search_path()}
    before = {name: os.environ.get(name) for name in settings}
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
                _temp_dir=str(Path(folder) / "ray"),
                **QUIET,
            )
            if ray.util.get_node_ip_address() != "127.0.0.1":
                raise GraphsdeError(
                    "Ray would listen to the whole network",
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
        shutil.rmtree(folder, ignore_errors=True)


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
    """Ray reads its settings when it is imported, which somebody may have done before; then it is told again."""
    with contextlib.suppress(ImportError, AttributeError):
        from ray._private import ray_constants
        from ray._raylet import Config  # type: ignore[attr-defined, unused-ignore]

        ray_constants.ENABLE_RAY_CLUSTER = False
        Config.initialize("")


def _private_folder() -> str:
    """A folder of our own, readable by nobody else; Ray's default is shared by all users of the machine.

    Ray opens the folder it is given to everybody; so it gets one inside.
    """
    place = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="graphsde-", dir=place if len(place) < LONGEST_FOLDER else "/tmp")
