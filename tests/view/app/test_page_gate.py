"""The door of the page, without a server: who gets in, who does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphsde.base.errors import BadUsage, MissingExtra
from graphsde.view.app import serve as serving
from graphsde.view.app.serve import COOKIE, UPLOAD_BYTES, Gate, Place, is_loopback, options, serve

TOKEN = "a-token-of-some-length"


async def behind(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


def ask(gate: Gate, path: str = "/", kind: str = "http", method: str = "GET", body: bytes = b"", **headers: str) -> Any:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    names = {"host": "127.0.0.1:8501"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": kind,
        "path": path,
        "method": method,
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
    }
    asyncio.run(gate(scope, receive, send))
    return sent


def status(sent: Any) -> int:
    return int(sent[0]["status"])


@pytest.fixture
def local() -> Gate:
    return Gate(behind, None, Place().names)


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.setattr("graphsde.view.app.serve.WRONG_TOKEN_SECONDS", 0.0)
    return Gate(behind, TOKEN, ())


def test_this_machine_gets_in_with_guarded_headers(local: Gate) -> None:
    sent = ask(local)
    headers = dict(sent[0]["headers"])
    assert status(sent) == 200 and sent[1]["body"] == b"inside"
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert ask(local, kind="websocket")[0]["type"] == "websocket.accept"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8501", "127.0.0.1.evil.example", "[::2]:8501"])
def test_a_foreign_name_for_this_machine_gets_nothing(local: Gate, host: str) -> None:
    assert status(ask(local, host=host)) == 403
    assert ask(local, kind="websocket", host=host)[0]["type"] == "websocket.close"


@pytest.mark.parametrize("host", ["localhost:8501", "127.0.0.1", "[::1]:8501", "LOCALHOST"])
def test_every_name_of_the_loopback_is_known(local: Gate, host: str) -> None:
    assert status(ask(local, host=host)) == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "file://"])
def test_another_site_can_not_speak_through_the_browser(local: Gate, origin: str) -> None:
    assert status(ask(local, origin=origin)) == 403
    assert ask(local, kind="websocket", origin=origin)[0]["type"] == "websocket.close"
    assert status(ask(local, origin="http://127.0.0.1:8501")) == 200


def test_parts_that_nobody_needs_are_closed(local: Gate) -> None:
    assert status(ask(local, path="/_stcore/agent/interact", method="POST")) == 404
    assert status(ask(local, path="/_stcore/metrics")) == 404


@pytest.mark.parametrize("length", [str(100 * 2**20), "-1", "9" * 30, "many"])
def test_a_large_body_is_refused_before_it_is_read(local: Gate, length: str) -> None:
    sent = ask(local, path="/_stcore/upload_file/x", method="PUT", content_length=length)
    assert status(sent) == 413 and b"at most 50 MB" in sent[1]["body"]
    assert status(ask(local, method="PUT", content_length=str(UPLOAD_BYTES))) == 200


def test_with_a_token_nothing_is_served_before_it(locked: Gate) -> None:
    sent = ask(locked, path="/media/secret")
    assert status(sent) == 401 and b"inside" not in sent[1]["body"] and b'name="token"' in sent[1]["body"]
    assert ask(locked, kind="websocket")[0]["type"] == "websocket.close"
    assert status(ask(locked, cookie=f"{COOKIE}=guess")) == 401
    assert status(ask(locked, cookie="a=\x01; ;;=")) == 401


@pytest.mark.parametrize(
    "given", [b"", b"token=", b"token=wrong", b"token=" + TOKEN[:-1].encode(), b"\xff", b"x" * 9000]
)
def test_a_wrong_token_opens_nothing(locked: Gate, given: bytes) -> None:
    sent = ask(locked, path="/token", method="POST", body=given)
    assert status(sent) == 401 and b"Wrong token" in sent[1]["body"]
    assert b"set-cookie" not in dict(sent[0]["headers"])


def test_the_right_token_opens_the_page_and_its_sockets(locked: Gate) -> None:
    sent = ask(locked, path="/token", method="POST", body=b"token=" + TOKEN.encode())
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode()
    assert status(sent) == 303 and "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    key = cookie.partition(";")[0]
    assert status(ask(locked, cookie=key)) == 200
    assert ask(locked, kind="websocket", cookie=key)[0]["type"] == "websocket.accept"
    assert status(ask(Gate(behind, TOKEN, ()), cookie=key)) == 401, "a pass is good for one server only"


def test_other_hosts_need_a_token() -> None:
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        with pytest.raises(BadUsage, match="to the network"):
            Place(host).checked()
    with pytest.raises(BadUsage, match="at least 16"):
        Place("0.0.0.0", 0, "short").checked()
    assert Place("0.0.0.0", 0, TOKEN).checked().port > 0
    assert is_loopback("127.0.0.1") and is_loopback("::1") and not is_loopback("10.0.0.1")


def test_a_port_in_use_is_told() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadUsage, match="another --port"):
            Place(port=taken.getsockname()[1]).checked()


def test_what_the_framework_is_told() -> None:
    told = options(Place(), browser=False)
    assert told["server.address"] == "127.0.0.1" and told["browser.gatherUsageStats"] is False
    assert told["server.enableXsrfProtection"] is True and told["server.enableCORS"] is True
    assert told["server.maxUploadSize"] == 50 and told["server.enableAgentApi"] is False
    assert told["client.showErrorDetails"] == "none"


def test_every_option_is_one_the_framework_knows() -> None:
    from streamlit.web.server.starlette.starlette_app import _validate_run_config

    _validate_run_config(options(Place(), browser=True))


def test_without_the_extra_one_line_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "streamlit", None)
    with pytest.raises(MissingExtra, match=r"graphsde\[app\]") as refusal:
        serve(tmp_path, Place(port=0), browser=False)
    assert refusal.value.exit_code == 69 and serving.SCRIPT.is_file()
