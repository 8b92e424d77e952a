"""Downloads against a server on this machine: whole, broken, wrong, missing, absent."""

from __future__ import annotations

import hashlib
import http.server
import io
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pooch
import pytest

from graphsde.base.errors import BadInput, BadUsage, StorageError
from graphsde.datasets import published as locate
from graphsde.datasets.published import PublishedFile, fetch

CONTENT = np.random.default_rng(0).bytes(300_000)


class Site:
    """What the server should do, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"thing.bin": CONTENT}
        self.cuts: list[int] = []  # bytes after which the next answers break off
        self.statuses: list[int] = []  # what the next answers say instead of serving
        self.ranges = True
        self.redirect: str | None = None
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""


def handler_for(site: Site) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, wanted = self.path.lstrip("/"), self.headers.get("Range")
            site.asked.append((name, wanted))
            if site.redirect:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.end_headers()
                return
            if site.statuses or name not in site.files:
                self.send_error(site.statuses.pop(0) if site.statuses else 404)
                return
            content, start = site.files[name], 0
            if wanted and site.ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            body = content[start:]
            self.wfile.write(body[: site.cuts.pop(0)] if site.cuts else body)

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    site = Site()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_for(site))
    site.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def closed_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as one:  # bound, so that nobody else listens there
        one.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{one.getsockname()[1]}/"


def published(
    content: bytes = CONTENT, name: str = "thing.bin", url: str = "https://example.invalid/"
) -> PublishedFile:
    return PublishedFile(f"Thing/raw/{name}", url, len(content), hashlib.sha256(content).hexdigest())


def get(site: Site, target: Path, file: PublishedFile | None = None, **options: object) -> None:
    fetch(file or published(), target, base_url=site.url, pause=0.0, timeout=600.0, **options)  # type: ignore[arg-type]


def test_a_whole_file_arrives_and_progress_is_told(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    get(site, tmp_path / "deep" / "thing.bin", progress=lambda *step: seen.append(step))
    assert (tmp_path / "deep" / "thing.bin").read_bytes() == CONTENT
    assert seen[-1] == ("thing.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_pooch_says_nothing_of_its_own_and_keeps_its_voice(site: Site, tmp_path: Path) -> None:
    logger, told = pooch.get_logger(), io.StringIO()
    level, handler = logger.level, logging.StreamHandler(told)
    logger.addHandler(handler)
    get(site, tmp_path / "thing.bin")
    logger.removeHandler(handler)
    assert told.getvalue() == "" and logger.level == level


def test_a_file_that_is_here_already_is_not_asked_for(site: Site, tmp_path: Path) -> None:
    (tmp_path / "thing.bin").write_bytes(CONTENT)
    get(site, tmp_path / "thing.bin")
    assert site.asked == []


def test_a_broken_transfer_is_taken_up_where_it_ended(site: Site, tmp_path: Path) -> None:
    site.cuts = [100_000, 50_000]
    get(site, tmp_path / "thing.bin")
    assert (tmp_path / "thing.bin").read_bytes() == CONTENT
    assert [wanted for _, wanted in site.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert sorted(one.name for one in tmp_path.iterdir()) == [".lock", "thing.bin"]


def test_a_transfer_is_taken_up_by_a_later_call(site: Site, tmp_path: Path) -> None:
    site.cuts = [1000, 1000]
    with pytest.raises(StorageError, match="cut off, 2 times") as caught:
        get(site, tmp_path / "thing.bin", attempts=2)
    assert caught.value.code == "E-OFFLINE"
    assert (tmp_path / "thing.bin.part").read_bytes() == CONTENT[:2000]
    get(site, tmp_path / "thing.bin")
    assert site.asked[-1] == ("thing.bin", "bytes=2000-")
    assert (tmp_path / "thing.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(site: Site, tmp_path: Path) -> None:
    site.ranges, site.cuts = False, [1000]
    get(site, tmp_path / "thing.bin")
    assert (tmp_path / "thing.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("length", [1000, len(CONTENT), len(CONTENT) + 5])
def test_a_leftover_of_something_else_does_no_harm(site: Site, tmp_path: Path, length: int) -> None:
    (tmp_path / "thing.bin.part").write_bytes(b"x" * length)
    get(site, tmp_path / "thing.bin")
    assert (tmp_path / "thing.bin").read_bytes() == CONTENT
    assert site.asked[-1] == ("thing.bin", None)


def test_a_wrong_file_is_tried_once_more_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.files["thing.bin"] = b"y" + CONTENT[1:]
    with pytest.raises(BadInput, match=r"thing\.bin") as caught:
        get(site, tmp_path / "thing.bin")
    assert caught.value.code == "E-HASH"
    assert len(site.asked) == 2
    assert [one.name for one in tmp_path.iterdir()] == [".lock"]


def test_a_wrong_file_that_comes_right_the_second_time_is_taken(site: Site, tmp_path: Path) -> None:
    good, site.files["thing.bin"] = CONTENT, b"y" + CONTENT[1:]

    def heal(name: str, done: int, total: int) -> None:
        if done == total:
            site.files["thing.bin"] = good

    get(site, tmp_path / "thing.bin", progress=heal)
    assert (tmp_path / "thing.bin").read_bytes() == CONTENT


def test_a_shorter_file_is_a_wrong_file_not_a_bad_connection(site: Site, tmp_path: Path) -> None:
    site.files["thing.bin"] = CONTENT[:-1]
    with pytest.raises(BadInput) as caught:
        get(site, tmp_path / "thing.bin")
    assert caught.value.code == "E-HASH"


def test_no_more_than_the_known_size_is_read(site: Site, tmp_path: Path) -> None:
    seen: list[int] = []
    short = published(CONTENT[:1000][::-1])
    with pytest.raises(BadInput):
        get(site, tmp_path / "thing.bin", short, progress=lambda name, done, total: seen.append(done))
    assert max(seen) == 1000


def test_a_missing_page_is_not_tried_again(site: Site, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="404") as caught:
        get(site, tmp_path / "other.bin", published(name="other.bin"))
    assert caught.value.code == "E-HTTP" and len(site.asked) == 1


def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429]
    get(site, tmp_path / "thing.bin")
    assert len(site.asked) == 3


@pytest.mark.parametrize("url", ["http://example.invalid/", "file:///etc/", "ftp://example.invalid/"])
def test_only_secure_addresses_are_asked(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadUsage) as caught:
        fetch(published(), tmp_path / "thing.bin", base_url=url)
    assert caught.value.code == "E-INSECURE"


@pytest.mark.parametrize("there", ["http://example.invalid/thing.bin", "ftp://example.invalid/thing.bin"])
def test_a_redirect_can_not_lead_away_from_https(site: Site, tmp_path: Path, there: str) -> None:
    site.redirect = there
    with pytest.raises((BadUsage, StorageError)) as caught:
        get(site, tmp_path / "thing.bin")
    assert caught.value.code in ("E-INSECURE", "E-HTTP")
    assert len(site.asked) == 1


def test_offline_says_what_is_wanted_and_where_to_put_it(
    closed_port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHSDE_CACHE", str(tmp_path))
    files = [published(name="a.bin"), published(name="b.bin")]
    with pytest.raises(StorageError) as caught:
        locate.from_cache_or_origin(files, base_url=closed_port)
    assert caught.value.code == "E-OFFLINE" and caught.value.exit_code == 74
    for word in ("a.bin", "b.bin", "Thing/raw", "GRAPHSDE_DATA"):
        assert word in str(caught.value)


def test_downloading_can_be_forbidden(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_CACHE", str(tmp_path))
    with pytest.raises(StorageError, match="downloads are disabled"):
        locate.from_cache_or_origin([published()], download=False, base_url=site.url)
    assert site.asked == []


def test_the_cache_is_read_before_the_network_and_healed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHSDE_CACHE", str(tmp_path))
    for _ in range(2):
        assert locate.from_cache_or_origin([published()], base_url=site.url) == {"thing.bin": CONTENT}
    assert len(site.asked) == 1
    (tmp_path / "data" / "Thing" / "raw" / "thing.bin").write_bytes(b"rubbish")
    assert locate.from_cache_or_origin([published()], base_url=site.url) == {"thing.bin": CONTENT}
    assert len(site.asked) == 2


def test_a_cache_that_can_not_be_written_is_done_without(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GRAPHSDE_CACHE", str(tmp_path / "file"))
    assert locate.from_cache_or_origin([published()], base_url=site.url) == {"thing.bin": CONTENT}
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
