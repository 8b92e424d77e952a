"""What attacks have found: one line of JSON per case, the last one of a case counts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "results" / "reliability" / "runs.jsonl"
KEPT, BROKEN = "kept", "broken"


@dataclass(frozen=True)
class Line:
    """A case; ``outcome`` is ``kept`` or the guarantee that was violated."""

    attack: str
    case: str
    outcome: str
    seconds: float
    megabytes: float
    date: str
    commit: str
    detail: str = ""

    @property
    def kept(self) -> bool:
        return self.outcome == KEPT


class Journal:
    """A file of lines; several processes may append to it, each line in one write."""

    def __init__(self, path: Path = RUNS) -> None:
        self.path = path

    def lines(self) -> list[Line]:
        """The last line of every case, in the order in which cases came."""
        latest: dict[tuple[str, str], Line] = {}
        for line in self._all():
            latest[line.attack, line.case] = line
        return list(latest.values())

    def append(self, line: Line) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = (json.dumps(asdict(line), ensure_ascii=False) + "\n").encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, content)
        finally:
            os.close(handle)

    def compact(self, commit: str, attacks: list[str]) -> None:
        """Forget what counts no longer: earlier lines of a case, and cases of these attacks at other commits."""
        kept = [line for line in self.lines() if line.attack not in attacks or line.commit == commit]
        if self.path.exists():
            part = self.path.with_suffix(".part")
            part.write_text("".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in kept), "utf-8")
            os.replace(part, self.path)

    def _all(self) -> Iterator[Line]:
        if self.path.exists():
            for text in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    yield Line(**json.loads(text))
                except (ValueError, TypeError):
                    continue  # cut short by a kill: the case is run again


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def present_commit() -> str:
    """The commit of the code that is attacked; with a mark where files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "reliability")
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
