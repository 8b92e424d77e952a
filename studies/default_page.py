"""docs/results/default.md from the journal of studies/default.py."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import graphs
import numpy as np
import study_table

from graphsde.bench.cells import Cell
from graphsde.bench.statistics import verdicts

PAGE = graphs.ROOT / "docs" / "results" / "default.md"
README = graphs.ROOT / "README.md"
TITLES = {
    "cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed", "photo": "Amazon Photo",
    "computers": "Amazon Computers",
    "coauthor-cs": "Coauthor CS", "coauthor-physics": "Coauthor Physics", "facebook": "Facebook pages",
    "minesweeper": "Minesweeper", "tolokers": "Tolokers", "wisconsin": "Wisconsin", "chameleon_filtered": "Chameleon",
}  # fmt: skip
METRICS = {"accuracy": True, "aurc": False, "nll": False}
"""Whether higher is better."""
OURS = "lgnsde"
RIVALS = ("gcn", "gat", "appnp", "mlp", "logistic", "logistic-hops", "ensemble")
FEWEST = 3
"""Runs of a rival below which it is shown with its n, but not judged yet."""
DIGITS = {"accuracy": 3, "aurc": 4, "nll": 3}
PROTOCOL_NAMES = {
    "label-leave-out": "several classes left out",
    "leave-class-out": "each class left out",
    "features": "mixed features",
    "structure": "rewired edges",
}
RIVAL_SCORES = ("entropy", "entropy+propagated", "gnnsafe", "ood")
COMPONENTS = [
    "Means over n seeds. `entropy+propagated`: entropy averaged over neighbours; `gnnsafe`: energy propagated over",
    "edges; `ood: …`: the score [`ood`](../ood.md) from some of its parts (energy, evidence, features) or, `alone`,",
    "of one node at a time, so that unknown nodes do not enter the background of the evidence.",
]
Runs = dict[str, dict[str, float]]
"""Value by pair by model."""


def latest(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of every system on every graph and protocol, the runs of the newest version of its results."""
    newest: dict[tuple[str, ...], int] = defaultdict(int)
    for record in records:
        key = record["graph"], record["protocol"], record["called"]
        newest[key] = max(newest[key], record["version"])
    return [r for r in records if r["version"] == newest[r["graph"], r["protocol"], r["called"]]]


def write_page(records: Sequence[dict[str, Any]]) -> None:
    PAGE.write_text(page_text(records), encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), records), encoding="utf-8")
    failed = sum("error" in record for record in records)
    print(f"{len(records) - failed} runs, {failed} failed: {PAGE}, and the table of {README}")


def page_text(records: Sequence[dict[str, Any]]) -> str:
    records = latest(records)
    done = [record for record in records if "error" not in record]
    failed = [record for record in records if "error" in record]
    parts = (_standard, _ood, _diffusion, _ablations)
    return "\n".join([_HEAD, *(line for part in parts for line in part(done)), *_failed(failed)]) + "\n"


def with_table(readme: str, records: Sequence[dict[str, Any]]) -> str:
    """The README with the table of the standard setting between its two marks."""
    records = latest(records)
    columns = (
        "graph (seeds)",
        "LGNSDE, default",
        "best rival for each figure",
        "rivals with three seeds; ours on these",
    )
    lines = [f"| {' | '.join(columns)} |", "|---|---|---|---|"]
    for name in (*graphs.KNOWN, *graphs.UNKNOWN):
        own = [r for r in records if r["graph"] == name and r["protocol"] == "standard" and "error" not in r]
        figures = {metric: {m: list(v.values()) for m, v in _pairs(own, metric).items()} for metric in METRICS}
        ours = [_short(figures[metric][OURS]) for metric in METRICS]
        seeds = len(figures["accuracy"][OURS])
        best = []
        for metric, higher in METRICS.items():
            enough = [figures[metric].get(rival, []) for rival in RIVALS]
            means = [np.mean(values) for values in enough if len(values) >= seeds]  # of other splits says nothing
            best.append(_short([max(means) if higher else min(means)]))
        apart = "; ".join(_on_common_seeds(own, rival) for rival in RIVALS if _is_short(figures, rival, seeds))
        lines.append(f"| {TITLES[name]} ({seeds}) | {' / '.join(ours)} | {' / '.join(best)} | {apart} |")
    return study_table.with_table(readme, "python studies/default.py page", "\n".join(lines) + "\n")


def _is_short(figures: Mapping[str, Mapping[str, Sequence[float]]], rival: str, seeds: int) -> bool:
    """Whether a rival has runs, but fewer than the default."""
    return 0 < len(figures["accuracy"].get(rival, [])) < seeds


def _on_common_seeds(records: Sequence[dict[str, Any]], rival: str) -> str:
    """A rival and the default on the seeds that both have; means over other seeds can't be compared."""
    told = []
    for model in (rival, OURS):
        values = []
        for metric in METRICS:
            runs = _pairs(records, metric)
            values.append(_short([runs[model][pair] for pair in runs[rival] if pair in runs[OURS]]))
        told.append(" / ".join(values))
    return f"{rival}: {told[0]}; {told[1]}"


def _short(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f}".lstrip("0")


_HEAD = """# The default model, evaluated

Generated by `python studies/default.py page` from [results/default](../../results/default/runs.jsonl), written by
`python studies/default.py run`; settings were committed before the runs.

Mean ± standard deviation over n runs (seeds of model and split). **Bold** is best or statistically tied with the best:
paired t-tests against the leader of each column, Holm over the rivals, 5 %. Every rival chose its
settings in the same kind of race as the default (`models/candidates.yaml`), with the same row scaling, up to 1,000
epochs and a temperature. A rival with fewer than three runs is shown with its n but not judged. A rival with three is
compared over the runs of both, where only large differences can be detected: many such ties are for lack of runs.
"""


def _pairs(records: Iterable[dict[str, Any]], metric: str) -> Runs:
    found: Runs = defaultdict(dict)
    for record in records:
        if metric in record and record[metric] is not None and np.isfinite(record[metric]):
            found[record["called"]][f"{record['seed']}/{record['variant']}"] = record[metric]
    return found


def _standard(records: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for title, names in (("Graphs on which nothing was tuned", graphs.UNKNOWN), ("The paper's graphs", graphs.KNOWN)):
        lines += [f"## {title}: accuracy / AURC / NLL", ""]
        models = (OURS, *RIVALS)
        lines += ["| graph (n) | " + " | ".join(models) + " |", "|" + "---|" * (len(models) + 1)]
        told = []
        for name in names:
            own = [r for r in records if r["graph"] == name and r["protocol"] == "standard" and r["called"] in models]
            if not own:
                continue
            by_metric = {metric: _pairs(own, metric) for metric in METRICS}
            judged = {
                metric: {model: one for model, one in runs.items() if model == OURS or len(one) >= FEWEST}
                for metric, runs in by_metric.items()
            }
            said = {
                metric: verdicts(runs, higher_is_better=METRICS[metric]) if len(runs) > 1 else {}
                for metric, runs in judged.items()
            }
            n = max((len(runs) for runs in by_metric["accuracy"].values()), default=0)
            cells = [_cell(model, by_metric, said, n) for model in models]
            lines.append(f"| {name} ({n}) | " + " | ".join(cells) + " |")
            told.append((name, {metric: said[metric].get(OURS, "missing") for metric in METRICS}, judged))
        lines += ["", *_summary(told), ""]
    return lines


def _cell(model: str, by_metric: dict[str, Runs], said: dict[str, dict[str, str]], n: int) -> str:
    parts, runs = [], len(by_metric["accuracy"].get(model, {}))
    for metric in METRICS:
        values = list(by_metric[metric].get(model, {}).values())
        if not values:
            return "–"
        text = f"{np.mean(values):.{DIGITS[metric]}f}".lstrip("0")
        if len(values) > 1:
            text += f" ± {np.std(values, ddof=1):.{DIGITS[metric]}f}".replace("± 0.", "± .")
        parts.append(f"**{text}**" if said[metric].get(model) in ("best", "tied") else text)
    return " / ".join(parts) + (f" (n = {runs})" if runs < n else "")


def _summary(told: list[tuple[str, dict[str, str], dict[str, Runs]]]) -> list[str]:
    lines = []
    for metric in METRICS:
        tested = [name for name, said, _ in told if said[metric] in ("best", "tied", "behind")]
        good = [name for name, said, _ in told if said[metric] in ("best", "tied")]
        alone = [name for name, said, _ in told if said[metric] == "best"]
        few = f"; {len(told) - len(tested)} have too few runs for a test" if len(tested) < len(told) else ""
        first = f"- {metric}: best or tied on {len(good)} of {len(tested)} ({', '.join(good) or 'none'}){few};"
        lines.append(f"{first} no rival is tied on {', '.join(alone) or 'any'}.")
    behind = []
    for name, _, by_metric in told:
        ours, gaps = by_metric["accuracy"].get(OURS, {}), []
        for model, runs in by_metric["accuracy"].items():
            if common := sorted(set(runs) & set(ours)) if model != OURS else []:
                gaps.append((float(np.mean([ours[pair] - runs[pair] for pair in common])), model))
        if gaps:
            behind.append("{} {:+.3f} ({})".format(name, *min(gaps)))
    lines.append(f"- accuracy minus that of the best rival, over the runs of both: {'; '.join(behind)}.")
    return lines


def _ood(records: Sequence[dict[str, Any]]) -> list[str]:
    own = [record for record in records if "ood" in record]
    if not own:
        return []
    lines = ["## OOD nodes: AUROC ± standard deviation over seeds (FPR95)", ""]
    lines += [
        "The default model uses its one score `ood`; each rival uses the best, by mean, of entropy, propagated",
        "entropy, propagated energy and `ood`. Other systems: the best mean of any system with any score in the tables",
        "of the paper ([extended-ood](extended-ood.md)), with the settings used there.",
        "",
    ]
    models = [OURS, *(name for name in RIVALS if any(r["called"] == name for r in own))]
    lines += ["| graph, protocol (n) | " + " | ".join(models) + " | other systems |"]
    lines += ["|" + "---|" * (len(models) + 2)]
    good = cells = single = 0
    for name in graphs.KNOWN:
        for protocol, words in PROTOCOL_NAMES.items():
            here = [r for r in own if r["graph"] == name and r["protocol"] == protocol and r["called"] in models]
            if not any(record["called"] == OURS for record in here):
                continue
            runs: Runs = {}
            shown = {}
            for model in models:
                scores = ("ood",) if model == OURS else RIVAL_SCORES
                best = max(
                    (
                        (np.mean(list(values.values())), score, values)
                        for score in scores
                        if (values := _by_score(here, model, score, "ood_auroc"))
                    ),
                    default=None,
                    key=lambda one: one[0],
                )
                if best is None:
                    shown[model] = "–"
                    continue
                runs[model] = best[2]
                rate = np.mean(list(_by_score(here, model, best[1], "ood_fpr95").values()))
                runs_of_it = list(best[2].values())
                spread = f" ± {np.std(runs_of_it, ddof=1):.3f}" if len(runs_of_it) > 1 else ""
                shown[model] = f"{best[0]:.3f}{spread} ({rate:.2f})" + ("" if model == OURS else f" {best[1]}")
            said = verdicts(runs, higher_is_better=True) if len(runs) > 1 else {}
            tested = len(runs) > 1 and all(len(values) > 1 for values in runs.values())
            cells, single = cells + tested, single + (not tested)
            good += said.get(OURS) in ("best", "tied")
            for model in runs:
                if said.get(model) in ("best", "tied"):
                    shown[model] = f"**{shown[model]}**"
            n = len({record["seed"] for record in here if record["called"] == OURS})
            row = " | ".join(shown[model] for model in models)
            lines.append(f"| {name}, {words} ({n}) | {row} | {_others(name, protocol)} |")
    few = f"; {single} {'has' if single == 1 else 'have'} too few runs for a test" if single else ""
    power = "With two or three seeds only large differences can be detected, so a tie says little; compare the means."
    lines += ["", f"Best or tied in {good} of {cells} cells{few}. {power}", ""]
    return lines + _parts_of_score(own)


def _others(name: str, protocol: str) -> str:
    """The best of all other systems in the tables of the paper, by whichever score."""
    folder = {"label-leave-out": "label-leave-out", "features": "feature-perturbation"}.get(protocol)
    path = graphs.ROOT / "results" / f"extended-ood-{folder}" / "journal.jsonl"
    if folder is None or not path.is_file():
        return ""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    newest: dict[str, int] = {}
    records = [json.loads(line)["record"] for line in path.read_text(encoding="utf-8").splitlines()]
    cells = [(Cell(**record["cell"]), record["metrics"]) for record in records if record.get("metrics")]
    cells = [(cell, metrics) for cell, metrics in cells if cell.dataset == name and cell.model != OURS]
    for cell, _ in cells:
        newest[cell.label] = max(newest.get(cell.label, 0), cell.versions["model"])
    for cell, metrics in cells:
        if cell.versions["model"] < newest[cell.label]:
            continue
        for key, value in metrics.items():
            if value is not None and (key.startswith("ood_auroc") or key == "ood_default_auroc"):
                score = "ood" if key == "ood_default_auroc" else key[len("ood_auroc") :].strip("_") or "entropy"
                found[cell.label, score].append(value)
    if not found:
        return ""
    mean, (label, score) = max((float(np.mean(values)), who) for who, values in found.items())
    name, *settings = label.split("[")
    called = f"{name} with other settings" if settings else name
    return f"{mean:.3f} {called}, {score} (n = {len(found[label, score])})"


def _by_score(records: Iterable[dict[str, Any]], model: str, score: str, metric: str) -> dict[str, float]:
    """Mean over the classes left out, by seed."""
    found: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if record["called"] == model and score in record["ood"]:
            found[str(record["seed"])].append(record["ood"][score][metric])
    return {seed: float(np.mean(values)) for seed, values in found.items()}


def _parts_of_score(records: Sequence[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(name for record in records if record["called"] == OURS for name in record["ood"]))
    lines = ["### Components of the score, default model: AUROC", "", *COMPONENTS, ""]
    lines += ["| graph, protocol (n) | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    for name in graphs.KNOWN:
        for protocol, words in PROTOCOL_NAMES.items():
            here = [r for r in records if r["graph"] == name and r["protocol"] == protocol]
            values = [_by_score(here, OURS, score, "ood_auroc") for score in names]
            if any(values):
                means = [f"{np.mean(list(one.values())):.3f}" if one else "–" for one in values]
                n = max(map(len, values))
                lines.append(f"| {name}, {words} ({n}) | " + " | ".join(means) + " |")
    return [*lines, ""]


def _diffusion(records: Sequence[dict[str, Any]]) -> list[str]:
    """The default's own runs before and after its calibrator: the same networks."""
    lines = [
        "## What the diffusion after training changes", "",
        "The same networks with one temperature and with the distance-aware diffusion on top: mean, then difference",
        "± standard error over runs on test nodes of the standard setting. What it does to OOD detection by entropy",
        "is in the table above (`entropy` and `entropy before calibration`).", "",
        "| graph (n) | NLL before | difference | AURC before | difference | ECE before | difference |",
        "|" + "---|" * 7,
    ]  # fmt: skip
    shown = 0
    for name in (*graphs.KNOWN, *graphs.UNKNOWN):
        own = [r for r in records if r["graph"] == name and r["protocol"] == "standard" and r["called"] == OURS]
        own = [record for record in own if "before_calibrator" in record]
        if not own:
            continue
        shown += 1
        row = []
        for metric in ("nll", "aurc", "ece"):
            before = np.array([record["before_calibrator"][metric] for record in own])
            gaps = np.array([record[metric] for record in own]) - before
            spread = f" ± {np.std(gaps, ddof=1) / np.sqrt(len(gaps)):.4f}" if len(gaps) > 1 else ""
            row += [f"{before.mean():.4f}", f"{gaps.mean():+.4f}{spread}"]
        lines.append(f"| {name} ({len(own)}) | " + " | ".join(row) + " |")
    return [*lines, ""] if shown else []


def _ablations(records: Sequence[dict[str, Any]]) -> list[str]:
    version = max((r["version"] for r in records if r["called"] == OURS), default=0)
    records = [r for r in records if r["version"] == version]  # a variant of another version is compared with nothing
    others = [called for called in dict.fromkeys(r["called"] for r in records) if called.startswith(f"{OURS}:")]
    if not others:
        return []
    lines = ["## What each component contributes", ""]
    lines += [
        "Variant minus default on common runs, ± the standard error of the mean over n runs: accuracy, AURC, NLL; OOD",
        "AUROC by `ood` and entropy. Exact zeros: the race had already chosen a member without noise in training.",
        "",
    ]
    lines += [
        "| variant | graph, protocol (n) | accuracy | AURC | NLL | AUROC, ood | AUROC, entropy |",
        "|" + "---|" * 7,
    ]
    for called in others:
        own = [record for record in records if record["called"] == called]
        for name, protocol in dict.fromkeys((record["graph"], record["protocol"]) for record in own):
            here = [r for r in records if r["graph"] == name and r["protocol"] == protocol]
            row = [_difference(_pairs(here, metric), called) for metric in METRICS]
            for score in ("ood", "entropy"):
                with_ood = [record for record in here if "ood" in record]
                pair = {model: _by_score(with_ood, model, score, "ood_auroc") for model in (OURS, called)}
                row.append(_difference(pair, called))
            n = len({record["seed"] for record in own if record["graph"] == name and record["protocol"] == protocol})
            lines.append(
                f"| {called[len(OURS) + 2 :]} | {name}, {PROTOCOL_NAMES.get(protocol, protocol)} ({n}) | "
                + " | ".join(row)
                + " |"
            )
    return [*lines, ""]


def _difference(runs: Runs, called: str) -> str:
    common = sorted(set(runs.get(OURS, {})) & set(runs.get(called, {})))
    gaps = [runs[called][pair] - runs[OURS][pair] for pair in common]
    if not gaps:
        return ""
    spread = f" ± {np.std(gaps, ddof=1) / np.sqrt(len(gaps)):.4f}" if len(gaps) > 1 else ""
    return f"{np.mean(gaps):+.4f}{spread}"


def _failed(records: Sequence[dict[str, Any]]) -> list[str]:
    if not records:
        return []
    rows = [f"- {r['graph']}, {r['protocol']}, seed {r['seed']}, {r['called']}: {r['error']}" for r in records]
    return ["## Failed runs", "", *rows, ""]
