"""Runs the attacks: ``python -m reliability [ATTACK …] [--minutes 55] [--jobs 2] [--quick]``, or writes the page."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reliability.arena import Arena, Case, Verdict, arena
from reliability.attacks import ATTACKS, UNASKED
from reliability.journal import KEPT, RUNS, Journal, Line, now, present_commit

PROGRESS_SECONDS = 20.0
PREPARING = "preparing the attack"
FAILED_ITSELF = "the attack itself failed"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reliability", description=__doc__)
    parser.add_argument("attacks", nargs="*", help=f"some of {', '.join(ATTACKS)}; or: page")
    parser.add_argument("--minutes", type=float, default=55.0, help="stop when so many minutes are over")
    parser.add_argument("--jobs", type=int, default=2, help="processes that share the cases")
    parser.add_argument("--quick", action="store_true", help="a handful of cases of each attack")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--again", action="store_true", help="also cases that the journal has")
    parser.add_argument("--grow-corpus", action="store_true", help="keep the shortest new inputs of the fuzzer")
    parser.add_argument("--journal", type=Path, default=RUNS)
    parser.add_argument("--shard", default="0/1", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.attacks == ["page"]:
        from reliability.page import write_page

        return write_page(Journal(asked.journal))
    unknown = set(asked.attacks) - set(ATTACKS)
    if unknown:
        parser.error(f"there is no attack {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    asked.attacks = asked.attacks or list(UNASKED)
    if asked.shard != "0/1" or asked.jobs == 1:
        return _run(asked)
    return _share(asked)


def _share(asked: argparse.Namespace) -> int:
    """Start the processes, wait for them, say what they have found."""
    journal, commit, begin = Journal(asked.journal), present_commit(), time.monotonic()
    journal.compact(commit, [] if asked.only else asked.attacks)
    command = [sys.executable, "-m", "reliability", *asked.attacks, "--minutes", str(asked.minutes)]
    command += ["--journal", str(asked.journal), "--only", asked.only]
    command += ["--quick"] * asked.quick + ["--again"] * asked.again + ["--grow-corpus"] * asked.grow_corpus
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    shards = [f"{number}/{asked.jobs}" for number in range(asked.jobs)]
    processes = [subprocess.Popen([*command, "--shard", shard], env=environment) for shard in shards]
    codes = [process.wait() for process in processes]
    journal.compact(commit, [])
    lines = [line for line in journal.lines() if line.attack in asked.attacks]
    for name in asked.attacks:
        mine = [line for line in lines if line.attack == name]
        broken = [line for line in mine if not line.kept]
        print(f"{name}: {len(mine)} cases, {len(broken)} violations", flush=True)
        for kind, count in Counter(line.outcome[:150] for line in broken).most_common(12):
            print(f"  {count} × {kind}")
    print(f"{time.monotonic() - begin:.0f} s; the journal is {asked.journal}")
    return max([*codes, int(any(not line.kept for line in lines))])


def _run(asked: argparse.Namespace) -> int:
    """This process's share of the cases."""
    number, shards = (int(part) for part in asked.shard.split("/"))
    journal, commit = Journal(asked.journal), present_commit()
    deadline = time.monotonic() + 60 * asked.minutes
    known = {(line.attack, line.case): line.kept for line in journal.lines() if line.commit == commit and judged(line)}
    broken, late = 0, False
    signal.signal(signal.SIGTERM, lambda *details: sys.exit(143))  # so that the scratch folder is removed
    with arena(quick=asked.quick, minutes=asked.minutes, grow=asked.grow_corpus) as place:
        for name in asked.attacks:
            done, said = 0, time.monotonic()
            for case in _cases(name, place):
                mine = zlib.crc32(case.name.encode()) % shards == number or case.name == PREPARING
                if not mine or asked.only not in case.name:
                    continue
                if not asked.again and (name, case.name) in known:
                    broken += not known[name, case.name]
                    continue
                if time.monotonic() > deadline:
                    late = True
                    break
                found = carry_out(case)
                if not place.folder.is_dir():  # whatever was found says nothing of the program
                    print(
                        f"[{asked.shard}] {place.folder} was removed from outside; give the command again", flush=True
                    )
                    return 1
                cost = round(found.seconds, 3), round(found.megabytes, 1)
                outcome = found.outcome.replace(str(place.folder), "SCRATCH")
                journal.append(Line(name, case.name, outcome, *cost, now(), commit, found.detail))
                done += 1
                broken += found.outcome != KEPT
                if time.monotonic() - said > PROGRESS_SECONDS:
                    print(f"[{asked.shard}] {name}: {done} cases, {broken} broken so far; at {case.name}", flush=True)
                    said = time.monotonic()
    if late:
        print(f"[{asked.shard}] the time is over before the cases are; the same command goes on", flush=True)
    return 1 if broken or late else 0


def _cases(name: str, place: Arena) -> Iterator[Case]:
    """The cases of an attack; one that can't even be prepared has found something."""
    try:
        yield from ATTACKS[name](place)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"[:500]
        yield Case(PREPARING, lambda: Verdict([told]))


def judged(line: Line) -> bool:
    """Whether a case has a verdict; one whose attack failed by itself is run again."""
    return line.case != PREPARING and not line.outcome.startswith(FAILED_ITSELF)


def carry_out(case: Case) -> Verdict:
    """An attack that fails in an unforeseen way has found something."""
    begin = time.perf_counter()
    try:
        return case.run()
    except Exception as error:
        return Verdict([f"{FAILED_ITSELF}: {type(error).__name__}: {error}"[:500]], time.perf_counter() - begin)


if __name__ == "__main__":
    sys.exit(main())
