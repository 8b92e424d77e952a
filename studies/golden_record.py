"""A golden record: everything that a move of code must leave as it is, to the bit.

``make`` writes predictions of every model, settings on every benchmark, the ``--json`` of every verb, a resumed run,
the comparison of the committed journals and the cells that a bench on them would still run. ``compare`` holds two
records against each other, the older one read through the table of renames.

    python studies/golden_record.py make before/            # with the code of before
    python studies/golden_record.py make after/ --old before/
    python studies/golden_record.py compare before/record.json after/record.json

Floating point differs between makes of CPU: both records have to be made on one machine.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# what a machine's hour decides, not the code
VOLATILE = re.compile(r"seconds|memory|bytes|python|torch|cpu|wall|environment|commit|threads|packages|version|cores")
BENCHMARKS = ("digits", "diabetes", "cora", "citeseer", "pubmed", "computers", "photo", "synthetic:600")


def digest(array: Any) -> str | None:
    if array is None:
        return None
    array = np.ascontiguousarray(array)
    if array.dtype == object:
        return hashlib.sha256("\x1f".join(map(str, array.ravel())).encode()).hexdigest()[:16]
    return hashlib.sha256(repr((array.shape, str(array.dtype))).encode() + array.tobytes()).hexdigest()[:16]


def of_prediction(prediction: Any) -> dict[str, Any]:
    names = ("probs", "logits", "embedding", "alpha", "means", "variances", "known", "total", "epistemic")
    found = {name: digest(getattr(prediction, name)) for name in names if _has(prediction, name)}
    return {**found, "mean": float(np.asarray(prediction.mean).ravel()[0])}


def _has(prediction: Any, name: str) -> bool:
    try:
        return hasattr(prediction, name)
    except Exception:  # a prediction of numbers refuses what only classes have
        return False


def cli(*words: object) -> dict[str, Any]:
    """A verb's exit code and what it prints; JSON is read, and numbers that depend on the hour are left out."""
    from typer.testing import CliRunner

    from graphsde.cli.app import app

    result = CliRunner().invoke(app, [str(word) for word in words])
    try:
        said = steady(json.loads(result.stdout))
    except ValueError:
        said = result.stdout if "--json" in words else ""
    return {"exit": result.exit_code, "said": said, **({"error": result.stderr[:12]} if result.exit_code else {})}


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if not VOLATILE.search(str(key))}
    if isinstance(value, list):
        return [steady(one) for one in value]
    return value


def models(graphs: dict[str, Any]) -> dict[str, Any]:
    from graphsde.models import MODELS

    record: dict[str, Any] = {}
    presets = ("universal", "closed-world", "open-world", "paper", "released")
    asked = [(name, {}) for name in MODELS] + [("lgnsde", {"preset": preset}) for preset in presets]
    asked += [("gcn", {"batch_norm": True}), ("lgnsde", {"drift": "gcn"}), ("lgnsde", {"drift": "gat"})]
    asked += [("lgnsde", {"prior": "ou"}), ("lgnsde", {"diffusion": "q-wiener"}), ("lgnsde", {"solver": "srk"})]
    for on in ("digits", "diabetes"):
        for name, settings in asked:
            key = f"{name} {json.dumps(settings)} on {on}"
            try:
                cls = MODELS.get(name)
                epochs = cls(**settings).training_settings(epochs=3) or {}
                model = cls(**{**settings, **epochs, "seed": 1}).fit(graphs[on])
                record[key] = of_prediction(model.predict(graphs[on], samples=4))
            except Exception as error:
                record[key] = f"{type(error).__name__}: {str(error)[:8]}"
            print(key, flush=True)
    return record


def resolved(graphs: dict[str, Any]) -> dict[str, Any]:
    """The settings that every model takes on every benchmark, and the split that it gets."""
    from graphsde.models import MODELS

    record: dict[str, Any] = {}
    presets = ("closed-world", "open-world", "paper", "released")
    for on, graph in graphs.items():
        record[f"roles of {on}"] = {role: digest(mask) for role, mask in graph.masks.items()}
        for name, settings in [(name, {}) for name in MODELS] + [("lgnsde", {"preset": one}) for one in presets]:
            try:
                model = MODELS.get(name)(**settings)
                model.resolve(graph)
                record[f"{name} {json.dumps(settings)} on {on}"] = model.settings.model_dump(mode="json")
            except Exception as error:
                record[f"{name} {json.dumps(settings)} on {on}"] = f"{type(error).__name__}: {str(error)[:8]}"
    return record


def verbs(folder: Path) -> dict[str, Any]:
    """Every verb, on classes and on numbers, as a user would give it."""
    import graphsde as gs

    record: dict[str, Any] = {}
    gs.write_tables(gs.synthetic(240, classes=3, seed=3), folder / "shop")
    numbers = getattr(gs, "synthetic_regression", None) or gs.synthetic_values
    gs.write_tables(numbers(240, seed=3), folder / "prices")
    truth = {graph: _hide_labels(folder / graph / "nodes.csv") for graph in ("shop", "prices")}
    kinds = "models drifts priors diffusions solvers scores calibrators conformal metrics datasets splits shifts"
    for what in (*kinds.split(), "tasks", "acquisitions", "tables", "engines"):
        record[f"list {what}"] = cli("list", what, "--json")
    for graph, model in (("shop", "lgnsde"), ("shop", "gcn"), ("prices", "lgnsde"), ("prices", "graph-gp")):
        run, files = folder / f"run-{graph}-{model}", folder / f"files-{graph}-{model}"
        files.mkdir()
        name = f"{graph} {model}"
        epochs = ["--set", "epochs=6"] if model != "graph-gp" else []
        record[f"check {name}"] = cli("check", folder / graph, "--json")
        record[f"fit {name}"] = cli("fit", folder / graph, "--out", run, "--model", model, *epochs, "--json")
        record[f"evaluate {name}"] = cli("evaluate", run, "--json")
        record[f"evaluate scores {name}"] = cli("evaluate", run, "--score", "energy", "--json")
        record[f"evaluate shift {name}"] = cli("evaluate", run, "--shift", "gaussian-noise", "--json")
        record[f"predict {name}"] = cli("predict", run, "--out", files / "predictions.csv")
        limits = ["--tolerance", "1.5"] if graph == "prices" else []
        record[f"decide {name}"] = cli(
            "decide", run, "--max-error", "0.3", *limits, "--out", files / "decisions.csv", "--json"
        )
        record[f"ask {name}"] = cli("ask", run, "--budget", "5", "--out", files / "questions.csv", "--json")
        record[f"explain {name}"] = cli("explain", run, "3", "--out", files / "why.csv", "--json")
        record[f"theory {name}"] = cli("theory", run, "--samples", "4", "--json")
        record[f"calibrate {name}"] = cli("calibrate", run, "--json")
        record[f"evaluate calibrated {name}"] = cli("evaluate", run, "--json")
        _answer(files / "questions.csv", truth[graph])
        record[f"learn {name}"] = cli("learn", run, files / "questions.csv", "--epochs", "4", "--json")
        record[f"report {name}"] = cli("report", run, "--out", files / "report.html", "--figures", files / "figures")
        record[f"files {name}"] = {
            str(path.relative_to(files)): digest(np.frombuffer(path.read_bytes(), np.uint8))
            for path in sorted(files.rglob("*.csv"))
        }
        record[f"run {name}"] = {
            path.name: digest(np.frombuffer(path.read_bytes(), np.uint8))
            for path in sorted(run.glob("*"))
            if path.suffix in (".safetensors", ".csv")
        }
    run = folder / "run-open-world"
    split = ["--split", "leave-class-out", "--split-set", "leave=last"]
    record["fit open"] = cli("fit", "digits", "--out", run, *split, "--set", "epochs=6", "--json")
    record["evaluate open"] = cli("evaluate", run, "--score", "energy,gebm,mahalanobis,odin", "--json")
    record["decide open"] = cli("decide", run, "--max-error", "0.2", "--out", folder / "open.csv", "--json")
    record["files open"] = digest(np.frombuffer((folder / "open.csv").read_bytes(), np.uint8))
    bench = ["--datasets", "digits", "--models", "gcn,label-propagation", "--seeds", "2", "--engine", "serial"]
    bench += ["--set", "gcn.epochs=3", "--out", folder / "bench", "--json"]
    record["bench"] = cli("bench", "misclassification", *bench)
    record["bench again"] = cli("bench", "misclassification", *bench)
    record["compare"] = cli("compare", folder / "bench", "--json")
    record["search"] = cli(
        "search", "--datasets", "digits", "--models", "mlp", "--trials", "2", "--engine", "serial",
        "--out", folder / "search", "--json",
    )  # fmt: skip
    record["doctor"] = {"exit": cli("doctor", "--json")["exit"]}
    return record


def _hide_labels(path: Path) -> dict[str, str]:
    """Every fourth label is taken away, to be asked for; returns what all of them were."""
    rows = _rows(path)
    truth = {row["id"]: row["label"] for row in rows}
    _write(path, [{**row, "label": "" if place % 4 == 0 else row["label"]} for place, row in enumerate(rows)])
    return truth


def _answer(path: Path, truth: dict[str, str]) -> None:
    """Fill in the label column of a questionnaire."""
    _write(path, [{**row, "label": truth[row["id"]]} for row in _rows(path)])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def stopper() -> Any:
    """A callback that presses Ctrl-C in the seventh epoch."""
    try:
        from graphsde.nn.callbacks import Callback
    except ImportError:
        from graphsde.training.callbacks import Callback

    class Stop(Callback):
        def on_epoch(self, record: Any) -> None:
            if record.epoch == 7:
                os.kill(os.getpid(), signal.SIGINT)

    return Stop()


def interrupted(folder: Path, old: Path | None) -> dict[str, Any]:
    """A fit stopped in its seventh epoch, by the code of before where that is given, and gone on with."""
    from graphsde.runs.fit import FitRequest, fit_run
    from graphsde.runs.folder import RunFolder

    try:
        from graphsde.datasets.source import GraphSource
    except ImportError:
        from graphsde.runs.source import GraphSource

    record = {}
    for model, settings in (("lgnsde", {"epochs": 20}), ("gcn", {"epochs": 20}), ("ensemble", {"members": 2})):
        begun, gone_on = folder / f"begun-{model}", folder / f"gone-on-{model}"
        request = FitRequest(GraphSource.typed("digits"), model, settings, seed=0, samples=4)
        if old is None:
            try:
                fit_run(request, RunFolder(begun), callbacks=[stopper()])
            except Exception as error:
                print(type(error).__name__, error)
        else:
            shutil.copytree(old / f"begun-{model}", begun)
        shutil.copytree(begun, gone_on)
        outcome = fit_run(request, RunFolder(gone_on))
        record[model] = {"resumed": outcome.resumed, **of_prediction(outcome.prediction)}
    return record


def journals(folder: Path) -> dict[str, Any]:
    """What ``compare`` says of every committed journal, and how many of its cells a bench would run again."""
    try:
        from graphsde.bench.cells import ModelSpec, plan_cells
    except ImportError:
        from graphsde.runs.cells import ModelSpec, plan_cells

    record: dict[str, Any] = {}
    graphs: dict[str, Any] = {}
    for path in sorted((ROOT / "results").rglob("journal.jsonl")):
        place = str(path.parent.relative_to(ROOT))
        if "search/" not in place:
            record[f"compare {place}"] = cli("compare", path.parent, "--json")
        asked = json.loads((path.parent / "bench.json").read_text())
        groups: dict[str, set[int]] = defaultdict(set)
        ids = set()
        for line in path.read_text().splitlines():
            one = json.loads(line)
            cell = one.get("record", one)["cell"]
            ids.add(one.get("record", one)["id"])
            spec = [cell["dataset"], cell["model"], cell["settings"], cell.get("called", "")]
            groups[json.dumps(spec)].add(cell["seed"])
        missing = set(ids)
        for group, seeds in groups.items():
            dataset, model, settings, called = json.loads(group)
            spec = ModelSpec(model, settings, called=called)
            planned = plan_cells(asked["task"], asked["options"], [dataset], [spec], sorted(seeds), graphs)
            missing -= {cell.id for cell in planned}
        record[f"cells {place}"] = {"known": len(ids), "would run again": len(missing)}
        print(place, len(ids), len(missing), flush=True)
    results = shutil.copytree(ROOT / "results", folder / "results")  # showing a table writes it anew
    for table in [one["name"] for one in cli("list", "tables", "--json")["said"]]:
        record[f"reproduce {table}"] = cli("reproduce", table, "--show", "--out", results, "--json")
    return record


def make(folder: Path, old: Path | None) -> None:
    import torch

    import graphsde as gs

    torch.set_num_threads(1)
    folder.mkdir(parents=True)
    try:
        from graphsde.datasets.splits import default_split, make_split
    except ImportError:
        from graphsde.data.splits import default_split, make_split

    graphs = {}
    for name in BENCHMARKS:
        graph = gs.load(name)
        graphs[name] = make_split(graph, default_split(graph)).apply(graph)
    record = {
        "models": models(graphs),
        "settings": resolved(graphs),
        "resumed": interrupted(folder, old),
        "verbs": verbs(folder),
        "journals": journals(folder),
    }
    text = json.dumps(record, indent=1, sort_keys=True, default=str).replace(str(folder.resolve()), "OUT")
    (folder / "record.json").write_text(text.replace(str(folder), "OUT").replace(str(ROOT), "ROOT") + "\n")


def spelt(name: Any) -> set[Any]:
    """What a former name is called today, by the table of renames."""
    from graphsde.base.renames import FORMER

    if not isinstance(name, str):
        return set()
    base, at, point = name.partition("@")
    return {names[base] + at + point for names in FORMER.values() if base in names} | {
        base + at + names[point] for names in FORMER.values() if at and point in names
    }


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """What is not equal, the older record read through the table of renames."""
    if isinstance(before, dict) and isinstance(after, dict):
        older = {next((new for new in spelt(key) if new in after), key): value for key, value in before.items()}
        keys = sorted(set(older) | set(after))
        return [d for key in keys for d in differences(older.get(key), after.get(key), f"{where} / {key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [d for place, pair in enumerate(pairs) for d in differences(*pair, f"{where} [{place}]")]
    if before == after or (isinstance(after, str) and after in spelt(before)):
        return []
    return [f"{where}: {str(before)[:300]} -> {str(after)[:300]}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="verb", required=True)
    making = sub.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--old", type=Path, help="a record whose interrupted runs are gone on with")
    comparing = sub.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.verb == "make":
        make(given.folder.resolve(), given.old and given.old.resolve())
        return
    before, after = (json.loads(path.read_text()) for path in (given.before, given.after))
    found = differences(before, after)
    print("\n".join(found) or "equal")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
