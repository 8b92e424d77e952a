"""Headers and paths that no browser sends: 400, in words, without a traceback."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphsde.view.app.request_headers import (
    Authority,
    Malformed,
    cookie_values,
    read_authority,
    read_headers,
    read_length,
    read_origin,
)
from graphsde.view.app.serve import COOKIE, Gate, Place

HERE = b"127.0.0.1:8501"
MALFORMED_HOSTS = [
    b"",
    b" ",
    b"127.0.0.1:8731@evil.com",
    b"evil.com@127.0.0.1:8501",
    b"user:password@127.0.0.1",
    b"[",
    b"]",
    b"[]",
    b"[::1",
    b"::1",
    b"[::1]]:8501",
    b"[::1]evil.com",
    b"[::1]:8501:1",
    b"[v1.x]",
    b"[:::1]",
    b"[::1%25eth0]",
    b"127.0.0.1:",
    b"127.0.0.1:0",
    b"127.0.0.1:65536",
    b"127.0.0.1:99999999999",
    b"127.0.0.1:-1",
    b"127.0.0.1:+80",
    b"127.0.0.1:8501:8501",
    b"127.0.0.1:x",
    b"127.0.0.1\x00.evil.com",
    b"127.0.0.1\t",
    b"127.0.0.1 evil.com",
    b"127.0.0.1, evil.com",
    b"127.0.0.1/evil",
    b"127.0.0.1\\evil",
    b"127.0.0.1#evil",
    b"127.0.0.1?evil",
    b"http://127.0.0.1",
    b"%31%32%37.0.0.1",
    b"l\xc3\xb6calhost",
    "１２７.0.0.1".encode(),
    b"\xff\xfe",
    b"-127.0.0.1",
    b"a" * 254,
    b"a" * 100_000,
]
OTHER_HOSTS = [
    b"xn--lcalhost-f0a",
    b"localhost.",
    b"127.1",
    b"2130706433",
    b"0x7f.1",
    b"[::ffff:127.0.0.1]",
    b"a" * 253,
]
MALFORMED_ORIGINS = [
    b"http://[",
    b"http://[::1",
    b"http://]",
    b"http://",
    b"https://",
    b"http:///",
    b"http://127.0.0.1:8501/",
    b"http://127.0.0.1:8501/path",
    b"http://127.0.0.1:8501@evil.com",
    b"http://evil.com@127.0.0.1:8501",
    b"http://127.0.0.1:99999",
    b"http://127.0.0.1:8501 http://evil.com",
    b"http://127.0.0.1:8501, null",
    b"http://127.0.0.1:8501\x00",
    b"http://127.0.0.1:8501\n",
    b"http://l\xc3\xb6calhost:8501",
    b"127.0.0.1:8501",
    b"//127.0.0.1:8501",
    b"",
    b"nullnull",
    b"\xff",
    b"x" * 100_000,
    b"http://" + b"a" * 100_000,
]
OTHER_ORIGINS = [
    b"null",
    b"file://",
    b"ftp://127.0.0.1:8501",
    b"http://xn--e1afmkfd",
    b"http://127.0.0.1",
    b"http://[::1]:8501",
]


async def behind(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


def ask(*headers: tuple[bytes, bytes], path: str = "/", kind: str = "http", token: str | None = None) -> Any:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "method": "GET", "headers": list(headers)}
    # no names: a page that listens everywhere, where the form of the header is all there is to look at
    gate = Gate(behind, token, Place().names if token is None else ())
    asyncio.run(gate(scope, receive, send))
    return sent


@pytest.mark.parametrize("host", MALFORMED_HOSTS, ids=lambda host: ascii(host[:30]))
def test_a_malformed_host(host: bytes) -> None:
    assert ask((b"host", host))[0]["status"] == 400
    assert ask((b"host", host), token="a-token-of-some-length")[0]["status"] == 400
    assert ask((b"host", host), kind="websocket")[0]["type"] == "websocket.close"


@pytest.mark.parametrize("host", OTHER_HOSTS, ids=lambda host: ascii(host[:30]))
def test_another_host(host: bytes) -> None:
    assert ask((b"host", host))[0]["status"] == 403


@pytest.mark.parametrize("origin", MALFORMED_ORIGINS, ids=lambda origin: ascii(origin[:30]))
def test_a_malformed_origin(origin: bytes) -> None:
    assert ask((b"host", HERE), (b"origin", origin))[0]["status"] == 400
    assert ask((b"host", HERE), (b"origin", origin), kind="websocket")[0]["type"] == "websocket.close"


@pytest.mark.parametrize("origin", OTHER_ORIGINS, ids=ascii)
def test_another_origin(origin: bytes) -> None:
    assert ask((b"host", HERE), (b"origin", origin))[0]["status"] == 403


def test_what_decides_may_be_said_once() -> None:
    assert ask()[0]["status"] == 400
    assert ask((b"host", HERE), (b"Host", HERE))[0]["status"] == 400
    assert ask((b"host", b"evil.com"), (b"host", HERE))[0]["status"] == 400
    mine = (b"origin", b"http://" + HERE)
    assert ask((b"host", HERE), mine)[0]["status"] == 200
    assert ask((b"host", HERE), mine, mine)[0]["status"] == 400
    assert ask((b"host", HERE), (b"content-length", b"1"), (b"content-length", b"2"))[0]["status"] == 400


@pytest.mark.parametrize(
    "path", ["http://127.0.0.1:8501/", "http://evil.com/", "*", "", "evil.com:443", "/a\0b", "/\x1b[2J"]
)
def test_a_path_that_is_none(path: str) -> None:
    assert ask((b"host", HERE), path=path)[0]["status"] == 400


@pytest.mark.parametrize("length", [b"9" * 10_000, b"\xb2", b"1e3", b"0x10", b" 1", b"", b"\xd9\xa3"])
def test_a_length_that_is_none(length: bytes) -> None:
    assert ask((b"host", HERE), (b"content-length", length))[0]["status"] == 413


@pytest.mark.parametrize(
    "cookie", [b'"' + b"\\" * 60_000, b"=" * 60_000, b";" * 60_000, COOKIE.encode() + b'="', b"\x00\xff"]
)
def test_a_cookie_opens_nothing_and_costs_little(cookie: bytes) -> None:
    assert ask((b"host", HERE), (b"cookie", cookie), token="a-token-of-some-length")[0]["status"] == 401


def test_readers_in_detail() -> None:
    assert read_authority("LocalHost:80") == Authority("localhost", 80)
    assert read_authority("[0:0:0:0:0:0:0:1]:1") == Authority("[::1]", 1)
    assert read_origin("https://[::1]:8501") == Authority("[::1]", 8501) and read_origin("null") is None
    assert read_length("007") == 7 and read_length("-1") is None
    assert read_headers([(b"Cookie", b"a=1"), (b"cookie", b"a=2"), (b"X", b"1"), (b"x", b"2")]) == {
        "cookie": "a=1; a=2",
        "x": "2",
    }
    assert cookie_values("a=1; b=2;a=3=4; a", "a") == ["1", "3=4", ""]
    with pytest.raises(Malformed):
        read_authority("localhost\n")


REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8731@evil.com\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {here}\r\nOrigin: http://[\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {here}\r\nHost: evil.com\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET http://evil.com/ HTTP/1.1\r\nHost: {here}\r\n\r\n",
    b"GET http://{here}/ HTTP/1.1\r\nHost: {here}\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: {here}\r\n\r\n",
    b"GET /%00 HTTP/1.1\r\nHost: {here}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {here}\x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {here}\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    b"GET /_stcore/stream HTTP/1.1\r\nHost: {here}\r\nOrigin: http://[\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]


def test_a_real_server_answers_in_words(tmp_path: Path) -> None:
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    command = [sys.executable, "-m", "graphsde", "app", str(tmp_path), "--port", "0", "--no-browser"]
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GRAPHSDE_TOKEN": ""})
        try:
            address = _address(process, tmp_path / "log")
            assert _send(address, b"GET / HTTP/1.1\r\nHost: {here}\r\n\r\n").startswith(b"HTTP/1.1 200")
            for request in REQUESTS:
                found = _send(address, request)
                assert re.match(rb"HTTP/1\.1 (40[03]|431) ", found), (request[:80], found[:200])
                assert b"Traceback" not in found
            assert _send(address, b"GET / HTTP/1.1\r\nHost: {here}\r\n\r\n").startswith(b"HTTP/1.1 200")
        finally:
            process.terminate()
            process.wait(600)
    assert "Traceback" not in (tmp_path / "log").read_text()


def _address(process: Any, log: Path) -> tuple[str, int]:
    import time

    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            address = "127.0.0.1", int(found[1])
            try:
                socket.create_connection(address, timeout=60).close()
                return address
            except OSError:
                pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def _send(address: tuple[str, int], request: bytes) -> bytes:
    with socket.create_connection(address, timeout=300) as line:
        line.sendall(request.replace(b"{here}", f"127.0.0.1:{address[1]}".encode()))
        try:
            return line.recv(4096)
        except ConnectionResetError:  # it was answered and closed before all of the request was sent
            return b"HTTP/1.1 400 (closed)"
