"""One target under coverage-guided fuzzing, in a process of its own: ``python -m reliability.fuzz_worker TARGET …``.

Untyped errors are written down and fuzzing goes on, so that one of them does not hide the others.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from pathlib import Path

SLOW_SECONDS, MOST_MEGABYTES = 10, 3000


def main() -> None:
    import atheris

    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("bases", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=int)
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with atheris.instrument_imports(include=["graphsde"]):
        import graphsde.bench.compare
        import graphsde.bench.search
        import graphsde.bench.table
        import graphsde.io.graphml
        import graphsde.io.npz
        import graphsde.io.parquet
        import graphsde.io.tables
        import graphsde.models
        import graphsde.runs.fit
        import graphsde.runs.learn  # noqa: F401
        from reliability.fuzz_targets import BY_NAME, Prey, seeds

        prey = Prey(BY_NAME[asked.target], asked.bases, asked.folder / "prey")
        prey.feed(prey.good)  # what is imported on first use must be instrumented too
    corpus = asked.folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, content in enumerate(seeds(prey)):
        (corpus / f"seed-{number}").write_bytes(content)
    known: set[str] = set()

    def one(data: bytes) -> None:
        try:
            prey.feed(data)
        except Exception as error:  # whatever is not typed is the finding
            place = [frame for frame in traceback.extract_tb(error.__traceback__) if "graphsde" in frame.filename][-1]
            what = f"{type(error).__name__} at {Path(place.filename).name}:{place.name}"
            if what not in known:
                known.add(what)
                (asked.folder / f"finding-{len(known)}.bin").write_bytes(data)
                note = {"what": what, "message": str(error)[:200], "line": place.lineno}
                (asked.folder / f"finding-{len(known)}.json").write_text(json.dumps(note))

    options = [f"-max_total_time={asked.seconds}", f"-timeout={SLOW_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}"]
    options += ["-max_len=8192", "-seed=1", "-print_final_stats=1", f"-artifact_prefix={asked.folder}/artifact-"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    os.chdir(asked.folder)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
