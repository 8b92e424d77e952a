"""Does the propagated variance of a graph SDE, fitted after training, beat one temperature? A test fixed beforehand.

    python studies/diffusion.py --model lgnsde --set sigma=0 [--seeds 10] [--graphs cora,physics] [--data FOLDER]
    python studies/diffusion.py --show

**Question.** Earlier studies put the closed form forward after test figures had been seen, as one of about twenty
methods. Here it meets graphs and splits that it was not seen on, under rules that were written before the first run.

**Candidates**, all on the same networks, against one ``temperature``: ``closed`` (the calibrator ``diffusion``),
``covariates`` (the same covariates, no SDE), ``sampled`` (64 draws of the same Gaussian) and ``constant`` (no
covariates). A diffusion learned in training and a distance-aware one may be added to ``CANDIDATES``; they then count in
the correction.

**Graphs.** Coauthor Physics, Tolokers, Minesweeper, Wisconsin, Chameleon, Facebook pages; and Cora, CiteSeer, PubMed,
Photo and Computers on random splits instead of the public ones. Tolokers, Minesweeper, Wisconsin and Chameleon have
ten splits of their own; the others get 20 training and 30 validation nodes per class, drawn with seeds from 100 on,
which no earlier study used.

**Protocols.** ``closed-world``: NLL and AURC (by confidence) on test nodes. ``label-leave-out``, where there are at
least three classes: AUROC of the entropy between test nodes of known classes and all nodes of the left-out ones.
Everything is fitted on validation nodes of known classes; nothing of test or OOD nodes is used.

**Test.** By graph and metric, paired t-tests over the seeds, corrected by Holm over the candidates.

**Rule.** A candidate becomes the default only if it is better than the temperature at the corrected 5 % in NLL, AURC or
detection on at least three graphs, and significantly worse in any of them on none. Otherwise it stays a calibrator
that one may ask for.

Runs are appended to results/diffusion/journal.jsonl, one line per graph, protocol and seed; what is there is not run
again. ``--judge val`` looks at validation nodes alone and is for development: such lines never enter the verdict.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import graphsde as gs
from graphsde.base.errors import GraphsdeError
from graphsde.base.lock import exclusive
from graphsde.bench.statistics import LEVEL, holm, paired_t
from graphsde.metrics.calibration import nll
from graphsde.metrics.detection import ood_auroc
from graphsde.metrics.selective import aurc
from graphsde.models import MODELS
from graphsde.prediction import ClassPrediction
from graphsde.prediction.classification import entropy
from graphsde.uncertainty.calibration.base import centred_logits
from graphsde.uncertainty.calibration.covariates import FittedNodes, raw_covariates, scale_of, standardised
from graphsde.uncertainty.calibration.diffusion import DEFAULT_FILTER
from graphsde.uncertainty.calibration.diffusion_forms import DiffusionData, fit_form

ROOT = Path(__file__).resolve().parents[1]
JOURNAL = ROOT / "results" / "diffusion" / "journal.jsonl"
MORE = ROOT.parent / "shared" / "data" / "more"
FIRST_SEED = 100
BENCHMARKS = ("cora", "citeseer", "pubmed", "photo", "computers")
WITH_SPLITS = {name: f"{name}.npz" for name in ("tolokers", "minesweeper", "wisconsin", "chameleon_filtered")}
GRAPHS = ("physics", *WITH_SPLITS, "facebook", *BENCHMARKS)
PROTOCOLS = ("closed-world", "label-leave-out")
METRICS = {"nll": False, "aurc": False, "ood_auroc": True}
"""Whether higher is better."""
FEWEST_BETTER = 3


@dataclass(frozen=True, eq=False)
class Network:
    """One fitted network and what candidates are fitted to."""

    graph: gs.Graph
    model: gs.Model
    prediction: ClassPrediction
    logits: torch.Tensor
    data: DiffusionData

    @classmethod
    def fit(cls, graph: gs.Graph, name: str, settings: dict[str, Any], seed: int) -> Network:
        model = MODELS.get(name)(**settings, seed=seed).fit(graph)
        prediction = model.predict(graph)
        assert isinstance(prediction, ClassPrediction) and graph.labels is not None
        rows = np.flatnonzero(graph.role("val") & graph.familiar)
        raw = raw_covariates(graph, FittedNodes.of(graph, rows))
        logits = centred_logits(prediction)
        data = DiffusionData.of(
            logits,
            torch.from_numpy(rows),
            torch.from_numpy(graph.labels[rows].copy()),
            standardised(raw, *scale_of(raw)),
            graph.adjacency.operator,
            model.linear_filter() or DEFAULT_FILTER,
        )
        return cls(graph, model, prediction, logits, data)


@dataclass(frozen=True)
class Form:
    """A candidate that is a map of the same network's logits."""

    name: str

    def __call__(self, network: Network) -> tuple[np.ndarray, dict[str, Any]]:
        """Probabilities of all nodes, and what was fitted.  # [N, C]"""
        fitted = fit_form(self.name, network.data)
        probs = fitted.probabilities(network.logits, network.data.covariates, network.graph.adjacency.operator)
        ridge = fitted.ridge if np.isfinite(fitted.ridge) else None
        return probs.numpy(), {"parameters": fitted.parameters.tolist(), "ridge": ridge, "fitted_nll": fitted.nll}


CONTROL = "temperature"
CANDIDATES: dict[str, Callable[[Network], tuple[np.ndarray, dict[str, Any]]]] = {
    name: Form(name) for name in (CONTROL, "closed", "covariates", "sampled", "constant")
}


def open_graph(name: str, more: Path) -> tuple[gs.Graph, dict[str, np.ndarray] | None]:
    """A graph, and the splits that come with it.  # each [10, N] bool"""
    if name in BENCHMARKS:
        return gs.load(name), None
    if name == "physics":
        return gs.read(more / "ms_academic_phy.npz", name=name), None
    if name == "facebook":
        return _facebook(more / "facebook"), None
    with np.load(more / WITH_SPLITS[name], allow_pickle=False) as arrays:
        graph = gs.from_arrays(
            arrays["node_features"].astype(np.float32), arrays["edges"].T, labels=arrays["node_labels"], name=name
        )
        return graph, {role: arrays[f"{role}_masks"].astype(bool) for role in ("train", "val", "test")}


def _facebook(folder: Path) -> gs.Graph:
    import csv

    import scipy.sparse as sp

    with (folder / "target.csv").open(encoding="utf-8", newline="") as file:
        kinds = {int(row["id"]): row["page_type"] for row in csv.DictReader(file)}
    words = {int(page): found for page, found in json.loads((folder / "features.json").read_text()).items()}
    edges = np.loadtxt(folder / "edges.csv", delimiter=",", skiprows=1, dtype=np.int64)
    pages = sorted(kinds)
    place = {page: row for row, page in enumerate(pages)}
    rows = np.repeat(np.arange(len(pages)), [len(set(words[page])) for page in pages])
    columns = np.concatenate([np.array(sorted(set(words[page])), dtype=np.int64) for page in pages])
    features = sp.csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)))
    ends = np.array([[place[one], place[other]] for one, other in edges.tolist() if one != other]).T
    return gs.from_arrays(features, ends, labels=[kinds[page] for page in pages], name="facebook")


def divided(graph: gs.Graph, own: dict[str, np.ndarray] | None, protocol: str, seed: int) -> gs.Graph | None:
    """``graph`` with the roles of one run, or ``None`` where the protocol has no meaning for it."""
    if own is not None:
        graph = graph.with_masks(**{role: masks[seed % len(masks)] for role, masks in own.items()})
    else:
        graph = gs.make_split(graph, "shchur", seed=FIRST_SEED + seed).apply(graph)
    if protocol == "closed-world":
        return graph
    if graph.num_classes < 3:
        return None
    return gs.make_split(graph, "label-leave-out", seed=FIRST_SEED + seed).apply(graph)


def figures(probs: np.ndarray, graph: gs.Graph, judge: str) -> dict[str, float]:
    assert graph.labels is not None
    rows = np.flatnonzero(graph.role(judge) & graph.familiar)
    own, truth = probs[rows] / probs[rows].sum(1, keepdims=True), graph.labels[rows]
    found = {"nll": nll(own, truth), "aurc": aurc(1.0 - own.max(1), own.argmax(1) != truth), "n": float(len(rows))}
    if judge == "test" and graph.ood_nodes is not None and graph.ood_nodes.any():
        found["ood_auroc"] = ood_auroc(entropy(own), entropy(probs[graph.ood_nodes]))
    return found


def run(arguments: argparse.Namespace, settings: dict[str, Any]) -> None:
    journal: Path = arguments.journal
    done = {_key(record) for record in records(journal)}
    for name in arguments.graphs.split(","):
        whole, own = open_graph(name, arguments.data)
        for protocol in arguments.protocols.split(","):
            for seed in range(arguments.seeds):
                record: dict[str, Any] = {
                    "graph": name, "protocol": protocol, "seed": seed, "model": arguments.model, "settings": settings,
                    "judge": arguments.judge,
                }  # fmt: skip
                if _key(record) in done or (graph := divided(whole, own, protocol, seed)) is None:
                    continue
                try:
                    network = Network.fit(graph, arguments.model, settings, seed)
                    record["candidates"] = {
                        one: {**figures(probs, graph, arguments.judge), **fitted}
                        for one, (probs, fitted) in ((key, make(network)) for key, make in CANDIDATES.items())
                    }
                except GraphsdeError as error:
                    record["error"] = str(error)
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(name, protocol, seed, record.get("error", "done"), flush=True)


def _key(record: dict[str, Any]) -> str:
    return json.dumps([record[part] for part in ("graph", "protocol", "seed", "model", "settings", "judge")])


def records(journal: Path) -> list[dict[str, Any]]:
    """Whole lines; one that a kill cut short is run again."""
    found = []
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def compared(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean differences to the temperature with Holm's p, by graph, metric and candidate."""
    differences: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in found:
        candidates = record.get("candidates", {})
        metrics = ("ood_auroc",) if record["protocol"] == "label-leave-out" else ("nll", "aurc")
        for metric in metrics:
            for name, figure in candidates.items():
                if name != CONTROL and metric in figure and metric in candidates[CONTROL]:
                    gap = figure[metric] - candidates[CONTROL][metric]
                    differences[record["graph"], metric][name].append(gap)
    rows = []
    for (graph, metric), by_candidate in differences.items():
        raw = {name: paired_t(np.array(gaps)) for name, gaps in by_candidate.items()}
        adjusted = holm({name: p for name, p in raw.items() if p is not None})
        for name, gaps in by_candidate.items():
            p = adjusted.get(name)
            mean = float(np.mean(gaps))
            sign = 0 if p is None or p >= LEVEL else (1 if (mean > 0) == METRICS[metric] else -1)
            rows.append({"graph": graph, "metric": metric, "candidate": name, "runs": len(gaps), "difference": mean,
                         "p": p, "sign": sign})  # fmt: skip
    return rows


def verdict(rows: list[dict[str, Any]]) -> dict[str, tuple[list[str], list[str], bool]]:
    """By candidate: graphs where it is better, graphs where it is worse, and whether the rule makes it the default."""
    told = {}
    for name in dict.fromkeys(row["candidate"] for row in rows):
        own = [row for row in rows if row["candidate"] == name]
        better = sorted({row["graph"] for row in own if row["sign"] > 0})
        worse = sorted({row["graph"] for row in own if row["sign"] < 0})
        told[name] = (better, worse, len(better) >= FEWEST_BETTER and not worse)
    return told


def show(journal: Path) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records(journal):
        if record["judge"] == "test":
            groups[f"{record['model']} {json.dumps(record['settings'])}"].append(record)
    for title, found in groups.items():
        print(f"\n{title}\n")
        print(
            "| graph | metric | candidate | runs | difference to a temperature | Holm's p |\n|---|---|---|---|---|---|"
        )
        rows = compared(found)
        for row in rows:
            p = "" if row["p"] is None else f"{row['p']:.3f}"
            cells = (row["graph"], row["metric"], row["candidate"], row["runs"], f"{row['difference']:+.4f}", p)
            print("| " + " | ".join(map(str, cells)) + " |")
        print()
        for name, (better, worse, ships) in verdict(rows).items():
            outcome = "becomes the default" if ships else "stays an option"
            print(f"{name}: better on {', '.join(better) or 'none'}; worse on {', '.join(worse) or 'none'}: {outcome}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="appnp")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the model")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--graphs", default=",".join(GRAPHS), help="with commas between")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="with commas between")
    parser.add_argument("--data", type=Path, default=MORE, help="the folder of the graphs that are no benchmarks")
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--judge", choices=("test", "val"), default="test")
    parser.add_argument("--show", action="store_true", help="run nothing, print what the journal holds")
    given = parser.parse_args()
    if not given.show:
        pairs = (one.partition("=") for one in given.set)
        with exclusive(given.journal.parent):
            run(given, {name: yaml.safe_load(value) for name, _, value in pairs})
    if given.judge == "test":
        show(given.journal)
