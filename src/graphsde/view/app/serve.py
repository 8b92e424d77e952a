"""Starting the page: where it listens, access control, and upload limits."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from graphsde.base.errors import BadUsage, MissingExtra, StorageError
from graphsde.view.app.request_headers import (
    Malformed,
    cookie_values,
    read_authority,
    read_headers,
    read_length,
    read_origin,
    require_path,
)
from graphsde.view.app.tls import Certificate
from graphsde.view.app.words import SHORTEST_TOKEN, UPLOAD_BYTES, UPLOAD_MEGABYTES, error_in_words

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "graphsde_page"
TOKEN_PATH = "/token"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
WILDCARDS = ("0.0.0.0", "::", "[::]")
MOST_FORM_BYTES = 4096
WRONG_TOKEN_SECONDS = 0.5
# parts of the framework that are not needed here
CLOSED = ("/_stcore/agent", "/_stcore/metrics", "/_stcore/script-health-check")

# everything the page needs comes from the page; it can't be framed, and nothing can call elsewhere
CONTENT_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with "no-referrer" a form would send no usable Origin
)

FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>graphsde</title><style>body{{font:16px system-ui,sans-serif;max-width:24rem;margin:15vh auto;padding:0 1rem}}
input,button{{font:inherit;width:100%;padding:.6rem;margin:.4rem 0;box-sizing:border-box}}
p.wrong{{color:#b00020}}</style>
<h1>graphsde</h1><p>Enter the token that this page was started with.</p>{note}
<form method="post" action="{path}"><input type="password" name="token" aria-label="Token" autofocus required>
<button>Open the page</button></form></html>"""


class Gate:
    """ASGI middleware in front of the whole page, sockets included.

    - The ``Host`` of a request must be one that the page is served under: another name that points at this
      machine gets nothing.
    - A request whose headers no browser would write gets 400, see :mod:`~graphsde.view.app.request_headers`.
    - A request that a browser sends for another site (``Origin``) gets nothing.
    - With a token, nothing is served before it is entered; it is compared in constant time, and the answer to a wrong
      one takes half a second.
    - A request body larger than an upload may be is refused before it is read.

    Args:
        app: the protected application.
        token: ``None`` if only this machine can reach the page.
        hosts: names it is served under; empty allows any (then a token guards it).
    """

    def __init__(self, app: ASGI, token: str | None, hosts: Iterable[str]) -> None:
        self.app = app
        self._digest = None if token is None else _digest(token)
        self._hosts = frozenset(read_authority(host).name for host in hosts)
        self._pass = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers: dict[str, str] = {}
        try:
            headers = read_headers(scope["headers"])
            refusal = self._refusal(scope, headers)
        except Malformed as error:
            refusal = 400, str(error)
        if refusal is not None:
            await _answer(scope, send, *refusal)
        elif self._digest is None or self._has_pass(headers):
            await self.app(scope, receive, _guarded(send))
        elif scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == TOKEN_PATH:
            await self._try_token(scope, receive, send)
        else:
            await _answer(scope, send, 401, FORM.format(note="", path=TOKEN_PATH), kind="text/html")

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = read_authority(headers.get("host", ""))
        require_path(scope["path"])
        if self._hosts and host.name not in self._hosts:
            return 403, "This page is not served under that name."
        origin = headers.get("origin")
        if origin is not None and read_origin(origin) != host:
            return 403, "Requests from other sites are refused."
        if scope["path"].startswith(CLOSED):
            return 404, "Not found."
        length = read_length(headers.get("content-length", "0"))
        # a megabyte more for what a form wraps around the file
        if length is None or length > UPLOAD_BYTES + 2**20:
            return 413, f"The file is too large: at most {UPLOAD_MEGABYTES} MB can be uploaded."
        return None

    def _has_pass(self, headers: dict[str, str]) -> bool:
        found = cookie_values(headers.get("cookie", ""), COOKIE)
        return any(hmac.compare_digest(_digest(value), _digest(self._pass)) for value in found)

    async def _try_token(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0]
        assert self._digest is not None
        if hmac.compare_digest(_digest(given), self._digest):
            cookie = f"{COOKIE}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
            if scope.get("scheme") == "https":
                cookie += "; Secure"
            await _answer(scope, send, 303, "", extra=[(b"location", b"/"), (b"set-cookie", cookie.encode())])
            return
        await asyncio.sleep(WRONG_TOKEN_SECONDS)
        note = '<p class="wrong" role="alert">Wrong token.</p>'
        await _answer(scope, send, 401, FORM.format(note=note, path=TOKEN_PATH), kind="text/html")


def _digest(text: str) -> bytes:
    """Of equal length for every text, so that a comparison does not reveal the length either."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


async def _body(receive: Receive) -> bytes:
    content = b""
    while len(content) <= MOST_FORM_BYTES:
        message = await receive()
        content += message.get("body", b"")
        if not message.get("more_body"):
            return content
    return b""


def _guarded(send: Send) -> Send:
    async def add_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return add_headers


async def _answer(
    scope: Scope,
    send: Send,
    status: int,
    text: str,
    kind: str = "text/plain",
    extra: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})  # before it was accepted: the browser sees a 403
        return
    body = text.encode()
    headers = [(b"content-type", f"{kind}; charset=utf-8".encode()), (b"content-length", str(len(body)).encode())]
    headers += [(b"cache-control", b"no-store"), *extra]
    await _guarded(send)({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


RUNS_VARIABLE = "GRAPHSDE_PAGE_RUNS"
TOKEN_VARIABLE = "GRAPHSDE_TOKEN"
SCRIPT = Path(__file__).with_name("page.py")


@dataclass(frozen=True)
class Place:
    """Where the page listens.

    Args:
        host: an address of this machine; anything but the loopback needs a token.
        port: 0 picks a free one.
        token: that visitors have to enter.
        certificate: with one, the page is served over TLS (https).
    """

    host: str = "127.0.0.1"
    port: int = 8501
    token: str | None = None
    certificate: Certificate | None = None

    def checked(self) -> Place:
        """The same place with a free port; refused if the page would be open to the network."""
        if self.token is None and not is_loopback(self.host):
            raise BadUsage(
                f"--host {self.host} would expose the page, and so your data, to the network",
                found=self.host,
                expected="a token as well",
                fix=f"set the environment variable {TOKEN_VARIABLE} to a secret of at least {SHORTEST_TOKEN} "
                "characters, or leave out --host and use an SSH tunnel",
            )
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise BadUsage(
                f"the token has {len(self.token)} characters",
                expected=f"at least {SHORTEST_TOKEN}",
                fix="create one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
            )
        if self.certificate is not None:
            self.certificate.checked()
        return replace(self, port=_free_port(self.host, self.port))

    @property
    def can_be_overheard(self) -> bool:
        """Whether the token is sent unencrypted."""
        return self.token is not None and self.certificate is None and not is_loopback(self.host)

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in WILDCARDS else self.host
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    @property
    def names(self) -> tuple[str, ...]:
        """Allowed host names of this page; any name if it listens on all interfaces."""
        if self.host in WILDCARDS:
            return ()
        host = self.host.partition("%")[0]  # browsers omit the interface of an address
        return (*LOOPBACK, f"[{host}]" if ":" in host else host)


def serve(runs: Path, place: Place, *, browser: bool, say: Callable[[str], None] = lambda text: None) -> None:
    """Serve the page until it is interrupted.

    Args:
        runs: the folder of run folders; uploads and jobs are kept in it too.
        place: where to listen.
        browser: open a browser window.
        say: called with the address of the page, once everything is ready.
    """
    try:
        import streamlit as st
        from starlette.middleware import Middleware
    except ImportError:
        raise MissingExtra("streamlit", "app") from None
    if not hasattr(st, "App"):
        raise MissingExtra("streamlit 1.67 or newer", "app")
    place = place.checked()
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {runs}: {error.strerror}", place=str(runs)) from error
    os.environ[RUNS_VARIABLE] = str(runs.resolve())
    os.environ.pop(TOKEN_VARIABLE, None)  # fits started by the page must not see it
    sys.argv = sys.argv[:1]  # the framework would pass our own options to its script
    gate = Middleware(Gate, token=place.token, hosts=place.names)
    app = st.App(SCRIPT, middleware=[gate], on_script_error=_tell)
    say(f"The page is at {place.url} (runs in {runs}). Stop it with Ctrl-C.")
    if place.can_be_overheard:
        say("The token is sent over plain http and can be read by others. Use --certificate and --key, or a tunnel.")
    app.run(config=options(place, browser=browser))


def _tell(error: Exception) -> bool:
    """The last resort: errors that no panel has caught are shown in words too."""
    from graphsde.view.app.panels.parts import say_error

    say_error(error_in_words(error))
    return True


def options(place: Place, *, browser: bool) -> dict[str, Any]:
    """Settings of the framework; they take precedence over a configuration file in the user's home."""
    return {
        "server.address": place.host,
        "server.port": place.port,
        "server.headless": not browser,
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.sslCertFile": None if place.certificate is None else str(place.certificate.chain.resolve()),
        "server.sslKeyFile": None if place.certificate is None else str(place.certificate.key.resolve()),
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
        if os.name != "nt":  # there it would let two servers share a port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise BadUsage(
                f"can't listen on {host}, port {port}: {error.strerror}", found=port, fix="choose another --port"
            ) from None
        return int(probe.getsockname()[1])
