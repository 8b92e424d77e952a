"""Starting the page: where it listens, what is switched off, and the script that draws it."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsde.errors import BadUsage, MissingExtra, StorageError
from graphsde.view.app.gate import LOOPBACK, WILDCARDS, Gate
from graphsde.view.app.limits import SHORTEST_TOKEN, UPLOAD_MEGABYTES
from graphsde.view.app.words import error_in_words

RUNS_VARIABLE = "GRAPHSDE_PAGE_RUNS"
TOKEN_VARIABLE = "GRAPHSDE_TOKEN"
SCRIPT = Path(__file__).with_name("page.py")


@dataclass(frozen=True)
class Place:
    """Where the page listens.

    Args:
        host: an address of this machine; anything but the loopback needs a token.
        port: 0 takes a free one.
        token: what a visitor has to type in.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    token: str | None = None

    def checked(self) -> Place:
        """The same place with a port that is free; refused where the page would stand open."""
        if self.token is None and not is_loopback(self.host):
            raise BadUsage(
                f"--host {self.host} would open the page, and with it your data, to the network",
                found=self.host,
                expected="a token as well",
                fix=f"set the environment variable {TOKEN_VARIABLE} to a secret of at least {SHORTEST_TOKEN} "
                "characters, or leave --host out and use an SSH tunnel",
            )
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise BadUsage(
                f"the token has {len(self.token)} characters",
                expected=f"at least {SHORTEST_TOKEN}",
                fix="make one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
            )
        return Place(self.host, _free_port(self.host, self.port), self.token)

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in WILDCARDS else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def names(self) -> tuple[str, ...]:
        """What the browser may call this page; any name where it listens everywhere."""
        if self.host in WILDCARDS:
            return ()
        return (*LOOPBACK, f"[{self.host}]" if ":" in self.host else self.host)


def serve(runs: Path, place: Place, *, browser: bool, say: Callable[[str], None] = lambda text: None) -> None:
    """Serve the page until it is interrupted.

    Args:
        runs: the folder of run folders; uploads and jobs are kept in it too.
        place: where to listen.
        browser: open a browser window.
        say: told where the page is, once everything is known to be in place.
    """
    try:
        import streamlit as st
        from starlette.middleware import Middleware
    except ImportError:
        raise MissingExtra("streamlit", "app") from None
    if not hasattr(st, "App"):
        raise MissingExtra("a streamlit of version 1.67 or newer", "app")
    place = place.checked()
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {runs}: {error.strerror}", place=str(runs)) from error
    os.environ[RUNS_VARIABLE] = str(runs.resolve())
    os.environ.pop(TOKEN_VARIABLE, None)  # fits that the page starts have no business with it
    sys.argv = sys.argv[:1]  # the framework would hand our own options to its script
    gate = Middleware(Gate, token=place.token, hosts=place.names)
    app = st.App(SCRIPT, middleware=[gate], on_script_error=_tell)
    say(f"The page is at {place.url} (runs in {runs}). Stop it with Ctrl-C.")
    app.run(config=options(place, browser=browser))


def _tell(error: Exception) -> bool:
    """The last resort: what no panel has caught is said in words too."""
    from graphsde.view.app.panels.parts import say_error

    say_error(error_in_words(error))
    return True


def options(place: Place, *, browser: bool) -> dict[str, Any]:
    """What the framework is told; these win over a configuration file in the user's home."""
    return {
        "server.address": place.host,
        "server.port": place.port,
        "server.headless": not browser,
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.maxUploadSize": UPLOAD_MEGABYTES,
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        "server.fileWatcherType": "none",
        "server.showEmailPrompt": False,
        "browser.gatherUsageStats": False,
        "browser.serverAddress": "127.0.0.1" if place.host in WILDCARDS else place.host,
        "client.showErrorDetails": "none",
        "client.showErrorLinks": False,
        "client.toolbarMode": "minimal",
        "runner.magicEnabled": False,
        "logger.hideWelcomeMessage": True,
        "logger.level": "warning",
        "theme.primaryColor": "#0072B2",
    }


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _free_port(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise BadUsage(
                f"can't listen on {host}, port {port}: {error.strerror}", found=port, fix="choose another --port"
            ) from None
        return int(probe.getsockname()[1])
