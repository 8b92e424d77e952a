"""Does the propagated variance of a graph SDE, fitted after training, beat one temperature? A test fixed beforehand.

    python studies/diffusion.py --model lgnsde --set sigma=0 [--seeds 10] [--graphs cora,facebook]
    python studies/diffusion.py --show
    python studies/diffusion.py --page

**Question.** Earlier studies put the closed form forward after test figures had been seen, as one of about twenty
methods. Here it meets graphs and splits that it was not seen on, under rules that were written before the first run.

**Candidates**, all on the same networks, against one ``temperature``: ``closed`` (the calibrator ``diffusion``),
``covariates`` (the same covariates, no SDE), ``sampled`` (64 draws of the same Gaussian) and ``constant`` (no
covariates), ``distance-aware`` (s² in proportion to one over the tail share of the evidence) and ``in training``
(another network, trained with noise of a quarter of the signal, on graphs where its member has exact marginals).

**Graphs.** Coauthor Physics, Tolokers, Minesweeper, Wisconsin, Chameleon, Facebook pages; and Cora, CiteSeer, PubMed,
Photo and Computers on random splits instead of the public ones. All splits are drawn with seeds from 100 on, which no
earlier study used, and which the study of the default model does not use: 48/32/20 per cent of every class on Tolokers,
Minesweeper, Wisconsin and Chameleon, 1,200/300/500 random nodes on Facebook, 20 training and 30 validation nodes per
class elsewhere.

**Protocols.** ``closed-world``: NLL and AURC (by confidence) on test nodes. ``label-leave-out``, where there are at
least three classes: AUROC of the entropy between test nodes of known classes and all nodes of the left-out ones.
Everything is fitted on validation nodes of known classes; nothing of test or OOD nodes is used.

**Test.** By graph and metric, paired t-tests over the seeds, corrected by Holm over the candidates.

**Rule.** A candidate becomes the default only if it is better than the temperature at the corrected 5 % in NLL, AURC or
detection on at least three graphs, and significantly worse in any of them on none. Otherwise it stays a calibrator
that one may ask for.

Runs are appended to results/diffusion/runs.jsonl, one line per graph, protocol and seed; what is there is not run
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

import graphs
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

JOURNAL = graphs.ROOT / "results" / "diffusion" / "runs.jsonl"
PAGE = graphs.ROOT / "docs" / "results" / "diffusion.md"
FIRST_SEED = 100
GRAPHS = (*graphs.UNKNOWN[1:], *graphs.KNOWN)
"""All but Coauthor CS, which the form was seen on."""
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


@dataclass(frozen=True)
class Trained:
    """Another network, trained with a constant noise of this ratio to the signal, and its own temperature."""

    sigma: float

    def __call__(self, network: Network) -> tuple[np.ndarray, dict[str, Any]]:
        settings = {**network.model._given, "sigma": self.sigma}
        prediction = type(network.model)(**settings).fit(network.graph).predict(network.graph)
        assert isinstance(prediction, ClassPrediction)
        return prediction.mean, {"sigma": self.sigma}


CONTROL = "temperature"
CANDIDATES: dict[str, Callable[[Network], tuple[np.ndarray, dict[str, Any]]]] = {
    **{name: Form(name) for name in (CONTROL, "closed", "covariates", "sampled", "constant", "distance-aware")},
    "in training": Trained(0.25),
}


def divided(name: str, protocol: str, seed: int) -> gs.Graph | None:
    """A graph with the roles of one run, or ``None`` where the protocol has no meaning for it."""
    graph, own = graphs.source(name).graph, FIRST_SEED + seed
    if protocol == "label-leave-out":
        return gs.make_split(graph, protocol, seed=own).apply(graph) if graph.num_classes >= 3 else None
    if name == "facebook":
        return graphs.labelled(graph, *graphs.FACEBOOK_LABELS, own)
    kind = "geom-48-32-20" if name in graphs.WITH_SPLITS else "shchur"
    return gs.make_split(graph, kind, seed=own).apply(graph)


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
    done = {_key(record) for record in graphs.records(journal)}
    for name in arguments.graphs.split(","):
        for protocol in arguments.protocols.split(","):
            for seed in range(arguments.seeds):
                record: dict[str, Any] = {
                    "graph": name, "protocol": protocol, "seed": seed, "model": arguments.model, "settings": settings,
                    "judge": arguments.judge,
                }  # fmt: skip
                if _key(record) in done or (graph := divided(name, protocol, seed)) is None:
                    continue
                try:
                    network = Network.fit(graph, arguments.model, settings, seed)
                    record["candidates"] = {}
                    for one, make in CANDIDATES.items():
                        if one == "in training" and network.model.linear_filter() is None:
                            continue
                        probs, fitted = make(network)
                        record["candidates"][one] = {**figures(probs, graph, arguments.judge), **fitted}
                except GraphsdeError as error:
                    record["error"] = str(error)
                with journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(name, protocol, seed, record.get("error", "done"), flush=True)


def _key(record: dict[str, Any]) -> str:
    return json.dumps([record[part] for part in ("graph", "protocol", "seed", "model", "settings", "judge")])


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
            error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
            rows.append({"graph": graph, "metric": metric, "candidate": name, "runs": len(gaps), "difference": mean,
                         "error": error, "p": p, "sign": sign})  # fmt: skip
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


def table_of(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| graph | metric | candidate | runs | difference from a temperature ± standard error | Holm's p |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        p = "" if row["p"] is None else f"{row['p']:.3f}"
        spread = f" ± {row['error']:.4f}" if row["runs"] > 1 else ""
        cells = (row["graph"], row["metric"], row["candidate"], row["runs"], f"{row['difference']:+.4f}{spread}", p)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def verdict_of(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for name, (better, worse, ships) in verdict(rows).items():
        outcome = "becomes the default" if ships else "stays an option"
        lines.append(
            f"* {name}: better on {', '.join(better) or 'none'}; worse on {', '.join(worse) or 'none'}: {outcome}"
        )
    return lines


def with_results(page: str, found: Iterable[dict[str, Any]]) -> str:
    """The page with verdict and table between their marks."""
    rows = compared(record for record in found if record["judge"] == "test" and record["model"] == "lgnsde")
    for name, lines in (("verdict", verdict_of(rows)), ("table", table_of(rows))):
        head, rest = page.split(f"<!-- {name} -->\n")
        _, tail = rest.split(f"<!-- end of {name} -->")
        page = "\n".join([f"{head}<!-- {name} -->", *lines, f"<!-- end of {name} -->{tail}"])
    return page


def show(journal: Path) -> None:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in graphs.records(journal):
        if record["judge"] == "test":
            groups[f"{record['model']} {json.dumps(record['settings'])}"].append(record)
    for title, found in groups.items():
        rows = compared(found)
        print("\n".join(["", title, "", *table_of(rows), "", *verdict_of(rows)]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="appnp")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the model")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--graphs", default=",".join(GRAPHS), help="with commas between")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="with commas between")
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--judge", choices=("test", "val"), default="test")
    parser.add_argument("--show", action="store_true", help="run nothing, print what the journal holds")
    parser.add_argument("--page", action="store_true", help="run nothing, write verdict and table into the page")
    given = parser.parse_args()
    if given.page:
        PAGE.write_text(with_results(PAGE.read_text("utf-8"), graphs.records(given.journal)), encoding="utf-8")
        raise SystemExit
    if not given.show:
        pairs = (one.partition("=") for one in given.set)
        with exclusive(given.journal.parent):
            run(given, {name: yaml.safe_load(value) for name, _, value in pairs})
    if given.judge == "test":
        show(given.journal)
