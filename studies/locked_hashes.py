"""Write the hashes of every wheel that the pinned packages may be installed from.

    python studies/locked_hashes.py                     # the same pins, hashes of all platforms
    python studies/locked_hashes.py numpy==2.4.6 ...    # with these pins moved, or added, first

Reads and writes ``constraints.txt`` and ``constraints-cuda.txt``. Files come from wherever pip is configured to look on
this machine: its index, further indexes, and folders of wheels (``find-links``). Hashes that a pin has already are kept
as long as its version stays, so that a build which lies on another machine is not forgotten.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import urlopen

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
FILES = ("constraints.txt", "constraints-cuda.txt")
OLDEST_PYTHON = 11  # of 3.x, as in pyproject.toml
TIMEOUT_SECONDS = 120


@dataclass
class Pin:
    """One package at one version, with the hashes of the files it may come from."""

    name: str
    version: str
    hashes: set[str] = field(default_factory=set)

    def lines(self) -> str:
        return " \\\n".join(
            [f"{self.name}=={self.version}", *(f"    --hash=sha256:{one}" for one in sorted(self.hashes))]
        )


def read_pins(path: Path) -> tuple[list[str], list[Pin]]:
    """The comments at the head of a file, and its pins in their order."""
    head: list[str] = []
    pins: list[Pin] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            head.append(line)
        elif found := re.match(r"([A-Za-z0-9._-]+)==(\S+)", line):
            pins.append(Pin(*found.groups()))
        elif found := re.match(r"\s+--hash=sha256:([0-9a-f]{64})", line):
            pins[-1].hashes.add(found[1])
    return head, pins


def move(pins: list[Pin], asked: list[str]) -> list[str]:
    """Move pins to other versions; what was asked for and is not among them is given back."""
    left = []
    for text in asked:
        name, equals, version = text.partition("==")
        if not equals:
            raise SystemExit(f"{text} is no pin: write NAME==VERSION")
        same = [pin for pin in pins if canonicalize_name(pin.name) == canonicalize_name(name)]
        if not same:
            left.append(text)
        for pin in same:
            if pin.version != version:
                pin.version, pin.hashes = version, set()
    return left


class _Links(HTMLParser):
    """Addresses on a page of an index."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base, self.found = base, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if tag == "a" and target:
            self.found.append(urljoin(self.base, target))


def pip_settings() -> dict[str, list[str]]:
    """What pip is told on this machine, by files and by the environment."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    settings: dict[str, list[str]] = {}
    for line in told.stdout.splitlines():
        key, _, value = line.partition("=")
        settings.setdefault(key.rpartition(".")[2], []).extend(ast.literal_eval(value).split())
    return settings


def places() -> tuple[list[str], list[Path]]:
    """Indexes, and folders of wheels."""
    from pip._internal.models.index import PyPI  # the only place that knows pip's default

    settings = pip_settings()
    indexes = settings.get("index-url", [PyPI.simple_url])[-1:] + settings.get("extra-index-url", [])
    folders = [Path(unquote(urlsplit(one).path)) for one in settings.get("find-links", [])]
    return list(dict.fromkeys(indexes)), [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def usable(filename: str, pin: Pin) -> bool:
    """Whether a file is a wheel of the pinned version, or of a local build of it, for a Python of ours."""
    try:
        name, version, _, tags = parse_wheel_filename(filename)
        same = name == canonicalize_name(pin.name) and Version(version.public) == Version(pin.version)
    except (InvalidWheelFilename, InvalidVersion):
        return False
    return same and any(_runs(tag.interpreter, tag.abi) for tag in tags)


def _runs(interpreter: str, abi: str) -> bool:
    kind, number = re.fullmatch(r"([a-z]+)(\d*)", interpreter).groups()  # type: ignore[union-attr]
    if kind == "py":
        return number.startswith("3")
    return kind == "cp" and number.startswith("3") and (abi == "abi3" or int(number[1:] or 0) >= OLDEST_PYTHON)


def hashes_of(pin: Pin, indexes: list[str], folders: list[Path]) -> Iterator[str]:
    for index in indexes:
        base = f"{index.rstrip('/')}/{canonicalize_name(pin.name)}/"
        # a folder of files has no pages of its own
        page = _page(base + "index.html" if base.startswith("file:") else base)
        links = _Links(base)
        links.feed(page)
        for link in links.found:
            address, hash_ = urldefrag(link)
            if usable(unquote(address.rsplit("/", 1)[-1]), pin) and hash_.startswith("sha256="):
                yield hash_.removeprefix("sha256=")
    for folder in folders:
        for path in folder.glob("*.whl"):
            if usable(path.name, pin):
                with open(path, "rb") as stream:
                    yield hashlib.file_digest(stream, "sha256").hexdigest()


def _page(address: str) -> str:
    try:
        with urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read().decode("utf-8"))
    except OSError:  # this index does not have it; another may
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pins", nargs="*", metavar="NAME==VERSION", help="pins to move first")
    asked = parser.parse_args().pins
    indexes, folders = places()
    files = {name: read_pins(ROOT / name) for name in FILES}
    for _, pins in files.values():
        asked = move(pins, asked)
    files[FILES[0]][1].extend(Pin(*text.split("==")) for text in asked)
    for name, (head, pins) in files.items():
        for pin in pins:
            found = set(hashes_of(pin, indexes, folders))
            print(f"{pin.name}=={pin.version}: {len(found)} wheels", flush=True)
            pin.hashes |= found
            if not pin.hashes:
                raise SystemExit(f"no wheel of {pin.name}=={pin.version} was found; nothing was written to {name}")
        body = sorted(pins, key=lambda pin: canonicalize_name(pin.name))
        (ROOT / name).write_text("\n".join([*head, *(pin.lines() for pin in body)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
