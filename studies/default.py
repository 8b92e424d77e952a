"""The default model judged: known graphs and unknown ones, against rivals that are raced as it is.

    python studies/default.py run [--part standard|ood|ablation] [--graphs cora,facebook] [--models lgnsde] [--seeds 5]
    python studies/default.py page

**Question.** Is the default LGNSDE, without a name of any graph in it, as good as the best of GCN, GAT, APPNP, an MLP,
logistic regression on features and on averaged features, and an ensemble of GCNs, on graphs that nobody tuned for; and
does its one OOD score find what nobody was trained on?

**Rivals.** GCN, GAT, APPNP and MLP choose among their members of `models/candidates.yaml` by the same race on
validation NLL, train for up to 1,000 epochs with patience 100 on rows of the same scaling, and get a temperature. The
ensemble has five GCNs with the settings of the raced one. Logistic regression searches its ridge (and hops) on
validation nodes.

**Parts.** ``standard``: accuracy, AURC, NLL on the five benchmarks and on seven other graphs. ``ood``: label leave-out,
mixed features, rewired edges and every class left out in turn, on the benchmarks, by the one OOD score; for rivals also
by entropy and by GNNSafe's propagated energy, the best of which counts for them. ``ablation``: the default without one
of its components, in the standard setting and with several classes left out.

Figures are of test nodes and were looked at once, after the settings had been committed. One line of
results/default/runs.jsonl is one run: what is there is not run again, unless the model's results version has
changed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import graphs
import numpy as np
import torch

import graphsde as gs
from graphsde.base.errors import GraphsdeError
from graphsde.bench.tasks.task import validation_figures
from graphsde.datasets.shifts import SHIFTS as SHIFTS_BY_NAME
from graphsde.datasets.splits import make_split
from graphsde.metrics.evaluation import evaluate
from graphsde.metrics.summary import familiar_and_ood, summarise_detection
from graphsde.models import MODELS, Model
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.scores import available_scores

JOURNAL = graphs.ROOT / "results" / "default" / "runs.jsonl"
RACED = ("gcn", "gat", "appnp", "mlp")
MODELS_JUDGED = ("lgnsde", *RACED, "logistic", "logistic-hops", "ensemble")
SMALL = ("wisconsin", "chameleon_filtered", "cora", "citeseer", "pubmed")
"""Graphs with ten seeds in the standard setting; the others have five."""
PROTOCOLS = ("label-leave-out", "features", "structure", "leave-class-out")
SHIFTS = {"features": "interpolate-features", "structure": "rewire-sbm"}
SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    "entropy": ("entropy", {}),
    "entropy+propagated": ("entropy+propagated", {}),
    "gnnsafe": ("gnnsafe", {}),
    "ood": ("ood", {}),
    "ood: energy and evidence": ("ood", {"parts": ("energy", "evidence")}),
    "ood: evidence": ("ood", {"parts": ("evidence",)}),
    "ood: features": ("ood", {"parts": ("features",)}),
    "ood: alone": ("ood", {"alone": True}),
}
"""The default score, its parts, and what rivals are also judged by."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "no race": {"race": False},
    "rows that sum to 1": {"scaling": "row"},
    "no consistency": {"preset": "auto", "consistency": {"kind": "none"}},
    "no gate by evidence": {"preset": "auto", "consistency": {"by_evidence": False}},
    "no noise in training": {"sigma": 0},
    "noise of a quarter in training": {"sigma": 0.25},
    "no diffusion after training": {"calibrator": None},
    "fitted diffusion after training": {"calibrator": "diffusion"},
    "preset universal": {"preset": "universal"},
}
"""The default without one component, or with another in its place."""
ABLATED = ("cora", "citeseer", "photo")
BEFORE = ("aurc", "nll", "ece", "brier")
"""What is also kept of the prediction before its calibrator."""
KEPT = ("accuracy", "aurc", "nll", "ece", "brier", "micro_auroc", "macro_f1", "val_nll", "val_accuracy")


def fitted(name: str, graph: gs.Graph, seed: int, settings: dict[str, Any]) -> Model:
    """A system, raced where it has a family."""
    if name == "ensemble":
        chosen = winning_gcn(graph, seed)
        return gs.Ensemble(base="gcn", base_settings=chosen, temperature=True, seed=seed, **settings).fit(graph)
    given = {"race": True, **settings} if name in RACED else settings
    return MODELS.get(name)(**given, seed=seed).fit(graph)


def winning_gcn(graph: gs.Graph, seed: int) -> dict[str, Any]:
    """Settings of the GCN that won the race on this graph: the journal's, or of a race that is run now."""
    raced = gs.GCN(race=True, seed=seed)
    for record in graphs.records(JOURNAL):
        key = (record["graph"], record["protocol"], record["seed"], record["called"])
        if key == (graph.name, "standard", seed, "gcn") and record["version"] == gs.GCN.version:
            raced = raced.as_candidate(next(one for one in raced.candidates(graph) if one.name == record["winner"]))
            raced.resolve(graph)
            break
    else:
        raced.fit(graph)
    return raced.settings.model_dump(exclude={"seed", "race"})


def measure(name: str, part: str, graph: gs.Graph, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    begin = time.process_time()
    model = fitted(name, graph, seed, settings)
    cpu = time.process_time() - begin
    prediction = model.predict(graph)
    assert isinstance(prediction, ClassPrediction)
    found = evaluate(prediction, graph) | validation_figures(prediction, graph)
    record: dict[str, Any] = {key: found[key] for key in KEPT if key in found} | {"cpu_seconds": round(cpu, 2)}
    if (before := getattr(prediction, "uncalibrated", None)) is not None:
        figures = evaluate(before, graph)
        record["before_calibrator"] = {key: figures[key] for key in BEFORE}
    record |= {"epochs": len(model.history), "best_epoch": model.best_epoch}
    if getattr(model, "standings", None):
        record["race"] = [[one.rung, one.name, round(one.val_nll, 5), one.kept] for one in model.standings]
        record["winner"] = model._candidate.name
    if part != "standard":
        record["ood"] = detection(model, prediction, graph, part, seed)
    return record


def detection(
    model: Model, prediction: ClassPrediction, graph: gs.Graph, part: str, seed: int
) -> dict[str, dict[str, float]]:
    """AUROC and FPR95 of every score that the model has."""
    clean, shifted = (prediction.for_detection(), graph), None
    if part in SHIFTS:
        moved = SHIFTS_BY_NAME.get(SHIFTS[part])(graph, seed=seed)
        shifted = (model.predict(moved).for_detection(), moved)
        inside, outside = graph.role("test") & graph.familiar, np.ones(graph.num_nodes, dtype=bool)
    else:
        inside, outside = familiar_and_ood(graph)
    found = {}
    for called, (name, options) in SCORES.items():
        if name.partition("+")[0] not in available_scores(prediction, graph, model):
            continue
        own = gs.score(name, *clean, model, **options)
        other = own if shifted is None else gs.score(name, *shifted, model, reference=clean, **options)
        figures = summarise_detection(own[inside], other[outside])
        found[called] = {key: figures[key] for key in ("ood_auroc", "ood_fpr95")}
    if prediction.distance_aware and shifted is None:
        plain = gs.score("entropy", prediction.untempered(), graph, model)
        figures = summarise_detection(plain[inside], plain[outside])
        found["entropy before calibration"] = {key: figures[key] for key in ("ood_auroc", "ood_fpr95")}
    return found


def cases(part: str, name: str, seed: int) -> list[tuple[str, str, gs.Graph]]:
    """Protocol, variant and graph of every run of a part on a graph."""
    if part == "standard":
        return [("standard", "", graphs.standard(name, seed))]
    whole = graphs.source(name).graph
    found = []
    for protocol in PROTOCOLS if part == "ood" else (part,):
        if protocol == "leave-class-out":
            for position in range(whole.num_classes):
                split = make_split(whole, "leave-class-out", seed=seed, leave=position)
                found.append((protocol, str(position), split.apply(whole)))
        elif protocol == "label-leave-out":
            found.append((protocol, "", make_split(whole, protocol, seed=seed).apply(whole)))
        else:
            kind = "planetoid" if name in ("cora", "citeseer", "pubmed") else "uniform-10-10-80"
            found.append((protocol, "", make_split(whole, kind, seed=seed).apply(whole)))
    return found


def ablate(arguments: argparse.Namespace) -> None:
    """Every variant on every graph, three seeds unless told otherwise."""
    for name in arguments.graphs or ABLATED:
        for part in ("standard", "label-leave-out"):
            for called, settings in ABLATIONS.items():
                given = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
                own = {"part": part, "graphs": (name,), "models": ("lgnsde",), "set": given}
                own |= {"called": f"lgnsde: {called}", "seeds": arguments.seeds or 3}
                run(argparse.Namespace(**{**vars(arguments), **own}))


def run(arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    settings = {key: json.loads(value) for key, value in settings.items()}
    done = {_key(record) for record in graphs.records(arguments.journal)}
    arguments.journal.parent.mkdir(parents=True, exist_ok=True)
    standard = arguments.part == "standard"
    for name in arguments.graphs or (graphs.KNOWN + graphs.UNKNOWN if standard else graphs.KNOWN):
        seeds = arguments.seeds or (10 if name in SMALL and standard else 5)
        for seed in range(arguments.first_seed, seeds):
            for protocol, variant, graph in cases(arguments.part, name, seed):
                for model in arguments.models:
                    record: dict[str, Any] = {
                        "graph": name, "protocol": protocol, "variant": variant, "seed": seed, "model": model,
                        "called": arguments.called or model, "settings": settings,
                        "version": MODELS.get(model).version,
                    }  # fmt: skip
                    if _key(record) in done:
                        continue
                    try:
                        record |= measure(model, protocol, graph, seed, settings)
                    except GraphsdeError as error:
                        record["error"] = str(error)
                    with arguments.journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")
                    print(
                        name,
                        protocol,
                        variant,
                        seed,
                        record["called"],
                        record.get("error", record.get("cpu_seconds")),
                        flush=True,
                    )


def _key(record: dict[str, Any]) -> str:
    parts = ("graph", "protocol", "variant", "seed", "model", "settings", "version")
    return json.dumps([record[part] for part in parts], sort_keys=True)


def listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("run", "page"))
    parser.add_argument("--part", choices=("standard", "ood", "ablation", *PROTOCOLS), default="standard")
    parser.add_argument("--graphs", type=listed, default=())
    parser.add_argument("--models", type=listed, default=MODELS_JUDGED)
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a setting of the models")
    parser.add_argument("--called", default="", help="what tables call the model under these settings")
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    given = parser.parse_args()
    if given.verb == "run":
        (ablate if given.part == "ablation" else run)(given)
    else:
        from default_page import write_page

        write_page(graphs.records(given.journal))
