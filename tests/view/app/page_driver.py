"""A real browser on a real server: how the browser tests start both."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE = 300_000
"""Milliseconds that the browser waits for something to appear, on a machine that may be busy."""


@contextmanager
def server(runs: Path, *words: str, **environment: str) -> Iterator[str]:
    """``graphsde app`` on a free port; gives its address."""
    command = [sys.executable, "-m", "graphsde", "app", str(runs), "--port", "0", "--no-browser", *words]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=errors, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + process.stderr.read()
            _answering(found[0])
            yield found[0]
        finally:
            process.terminate()
            process.wait(600)
            if process.stderr is not None:
                process.stderr.close()


def _answering(address: str) -> None:
    import time
    import urllib.error
    import urllib.request

    limit = time.monotonic() + 600
    while time.monotonic() < limit:
        try:
            urllib.request.urlopen(address, timeout=600)
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"nothing answers at {address}")


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium with a profile of its own; the tests are skipped where there is none."""
    if not CHROMIUM:
        pytest.skip(f"no Chromium on this machine (looked for {', '.join(NAMES)})")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as started:
        # root may not use the sandbox; small machines have little shared memory
        chromium = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            yield chromium
        finally:
            chromium.close()


class Visit:
    """One tab, watched: what opened a dialog, what ran, what was asked of other places."""

    def __init__(self, chromium: Any, address: str, width: int = 1280, height: int = 900) -> None:
        self.address = address
        self.page = chromium.new_page(viewport={"width": width, "height": height})
        self.page.set_default_timeout(PATIENCE)
        self.dialogs: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def open(self, path: str = "") -> None:
        self.page.goto(f"{self.address}/{path}")

    def go(self, name: str) -> None:
        """By the bar at the top or, on a phone, by the links in its place."""
        top, links = (self.page.get_by_test_id(one) for one in ("stTopNavLink", "stPageLink-NavLink"))
        links.first.wait_for(state="attached")
        narrow = self.page.viewport_size["width"] <= 768
        (links if narrow else top).filter(has_text=name).first.click()
        self.page.get_by_role("heading", name=name, exact=False).first.wait_for()

    def sees(self, text: str | re.Pattern[str]) -> Any:
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def press(self, name: str, **how: Any) -> None:
        self.page.get_by_role("button", name=name, **how).first.click()

    def dots(self) -> Any:
        """The nodes in the picture of the graph."""
        return self.page.locator(".js-plotly-plot").first.locator(".scatterlayer .trace").last.locator(".point")

    def settled(self) -> None:
        """Until the server has nothing more to send."""
        self.page.wait_for_timeout(300)
        self.page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()

    def download(self, name: str) -> str:
        with self.page.expect_download() as coming:
            self.press(name)
        return Path(coming.value.path()).read_text(encoding="utf-8")

    def harmless(self) -> None:
        assert self.dialogs == [] and self.elsewhere == []
        assert self.page.evaluate("window.__hit") is None
