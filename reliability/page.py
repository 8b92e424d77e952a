"""``docs/reliability.md``: every guarantee with its test, its figure and the date, from the list and the journals."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import groupby

from reliability.guarantees import Guarantee, guarantees
from reliability.journal import ROOT, Journal, Line

PAGE = ROOT / "docs" / "reliability.md"
NOT_RUN = "not run yet"
MOST_SHOWN = 8
HEAD = """# What is guaranteed, and how it is tested

Made by `python -m reliability page` from [reliability/guarantees.yaml](../reliability/guarantees.yaml) and the journal
`results/reliability/runs.jsonl`. `make reliability` runs attacks and tests (under an hour on two cores; it resumes),
then writes this page; `make test` runs a handful of cases of each attack.
"""


def write_page(journal: Journal) -> int:
    PAGE.write_text(render(guarantees(), journal.lines()), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")
    return 0


def render(listed: list[Guarantee], lines: list[Line]) -> str:
    parts = [HEAD]
    for group, rows in groupby(listed, key=lambda one: one.group):
        parts.append(f"## {group}\n")
        parts.append("| id | guarantee | test | figure | date |\n|---|---|---|---|---|")
        parts += [_row(one, lines) for one in rows]
        parts.append("")
    parts += _open_findings(lines)
    return "\n".join(parts)


def _row(one: Guarantee, lines: list[Line]) -> str:
    figure, date = _measured(one, lines)
    tests = "<br>".join(f"`{name}`" for name in one.tests)
    cells = [one.id, one.promise, tests, figure, date]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _measured(one: Guarantee, lines: list[Line]) -> tuple[str, str]:
    """The figure and the date on which it was measured."""
    if one.attack is not None:
        mine = [line for line in lines if line.attack == one.attack]
        return (attack_figure(mine), _date(mine)) if mine else (NOT_RUN, NOT_RUN)
    figure = one.figure
    if one.journal is not None and (ROOT / one.journal).is_file():
        return _told(one.figure), _last_run(one.journal)
    mine = [line for line in lines if line.attack in ("tests", "slow") and line.case == one.id]
    if not mine:
        return f"{figure} (`python -m reliability slow`)" if one.slow else figure, NOT_RUN
    told = mine[0].detail if mine[0].kept else f"**fails**: {mine[0].outcome}"
    return f"{figure}; {told}", _date(mine)


def attack_figure(lines: list[Line]) -> str:
    """Cases, broken promises, and the dearest case."""
    broken = sum(not line.kept for line in lines)
    verdict = "none broken" if not broken else f"**{broken:,} broken**"
    seconds, megabytes = max(line.seconds for line in lines), max(line.megabytes for line in lines)
    text = f"{len(lines):,} cases, {verdict}; at most {seconds:.1f} s and {megabytes:.0f} MB each"
    inputs = sum(int(line.detail.split()[0].replace(",", "")) for line in lines if " inputs" in line.detail)
    return f"{text}; {inputs:,} inputs" if inputs else text


def _open_findings(lines: list[Line]) -> list[str]:
    broken = [line for line in lines if not line.kept]
    if not broken:
        return []
    parts = ["## Broken promises\n", 'Run one again: `python -m reliability ATTACK --only "CASE" --again --jobs 1`.\n']
    for attack, mine in groupby(sorted(broken, key=lambda line: line.attack), key=lambda line: line.attack):
        examples: dict[str, Line] = {}
        counts: Counter[str] = Counter()
        for line in mine:
            kind = line.outcome[:120]
            counts[kind] += 1
            examples.setdefault(kind, line)
        for kind, count in counts.most_common(MOST_SHOWN):
            parts.append(f"- {attack}, {count} ×: {kind}; for instance `{examples[kind].case}`")
        if len(counts) > MOST_SHOWN:
            parts.append(f"- {attack}: {len(counts) - MOST_SHOWN} further kinds; the journal has them all")
    return [*parts, ""]


def _date(lines: list[Line]) -> str:
    latest = max(lines, key=lambda line: line.date)
    return f"{latest.date[:10]} ({latest.commit[:7]})"


def _told(command: str) -> str:
    """What the study that keeps a journal of its own says of it."""
    done = subprocess.run([sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, check=True)
    return "; ".join(done.stdout.splitlines()[:2])


def _last_run(journal: str) -> str:
    """The newest date in a study's journal, which a clone, a rebase or a newer git leaves as it is."""
    lines = (ROOT / journal).read_text(encoding="utf-8").splitlines()
    return max((str(json.loads(line).get("date", "")) for line in lines), default="") or NOT_RUN
