"""Every system beside what its authors (or others) have published: runs what is missing, writes docs/systems-table.md.

    python studies/systems.py [--seeds 5] [--only planetoid,label] [--workers 2] [--show]

Journals are kept under results/systems, so that running again does only what is missing. The paper's own network is in
the tables of docs/results.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from graphsde.bench.cells import Cell, ModelSpec, plan_cells
from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper.tables import EXTENDED_BACKBONE as BACKBONE
from graphsde.bench.reproduce import former_version, markdown_table, standing
from graphsde.bench.run import BenchRequest, Progress, run_bench

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "systems", ROOT / "docs" / "systems-table.md"


@dataclass(frozen=True)
class Claim:
    """One published figure and what it takes to meet it."""

    system: str
    model: str
    dataset: str
    metric: str
    published: float | None
    source: str
    tolerance: float = 1.5
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protocol:
    name: str
    title: str
    task: str
    options: dict[str, Any]
    claims: tuple[Claim, ...]


def _accuracies(
    model: str, system: str, figures: dict[str, float | None], source: str, tolerance: float = 1.5, **settings: Any
) -> list[Claim]:
    return [
        Claim(system, model, dataset, "accuracy", value, source, tolerance, settings)
        for dataset, value in figures.items()
    ]


PLANETOID = (
    *_accuracies("gcn", "GCN", {"cora": 81.5, "citeseer": 70.3, "pubmed": 79.0}, "Kipf and Welling 2017"),
    *_accuracies("gat", "GAT", {"cora": 83.0, "citeseer": 72.5, "pubmed": 79.0}, "Veličković et al. 2018"),
    *_accuracies("appnp", "APPNP", {"cora": 83.3, "citeseer": 71.8, "pubmed": 80.1}, "Fey and Lenssen 2019"),
    *_accuracies("sgc", "SGC", {"cora": 81.0, "citeseer": 71.9, "pubmed": 78.9}, "Wu et al. 2019"),
    *_accuracies(
        "grand",
        "GRAND-l",
        {"cora": 84.7, "citeseer": 73.3, "pubmed": 80.4},
        "Chamberlain et al. 2021, which keeps the largest component",
    ),
    *_accuracies(
        "gnode",
        "GNODE",
        {"cora": 83.8, "citeseer": 72.5, "pubmed": 79.9},
        "Poli et al. 2019, best of three variants per graph",
    ),
    *_accuracies("gread", "GREAD-BS", {"cora": None, "citeseer": None, "pubmed": None}, "none on this split"),
    *_accuracies("bgcn", "BB-GDC", {"cora": 82.5, "citeseer": 71.0}, "Hasanzadeh et al. 2020, about"),
    *_accuracies("bgcn-meanfield", "mean-field BGCN", {"cora": 79.0, "citeseer": 70.1, "pubmed": 45.8}, "LGNSDE paper"),
    *_accuracies("mc-dropout", "MC dropout", {"cora": None, "citeseer": None, "pubmed": None}, "none"),
    *_accuracies("ensemble", "ensemble of 5 GCNs", {"cora": 80.4, "citeseer": 71.1, "pubmed": 73.0}, "LGNSDE paper"),
    *_accuracies("graph-gp", "Matérn GP", {"cora": 64.9, "citeseer": 66.8}, "LGNSDE paper"),
    *_accuracies("gkde", "S-BGCN-T-K", {"cora": None, "citeseer": None, "pubmed": None}, "none looked up"),
    *_accuracies("gpn", "GPN", {"cora": None, "citeseer": None, "pubmed": None}, "none on this split"),
    *_accuracies("gnsd", "GNSD", {"cora": None, "citeseer": None}, "none looked up"),
    *_accuracies("label-propagation", "label propagation", {"cora": 69.5}, "about 68 to 71"),
)


def _detection(rows: list[tuple[str, str, str, float | None, str, dict[str, Any]]]) -> tuple[Claim, ...]:
    return tuple(
        Claim(system, model, "cora", metric, value, source, 3.0, settings)
        for system, model, metric, value, source, settings in rows
    )


_GNNSAFE = "Wu et al. 2023"
_FLIPPED = "LGNSDE paper; its sign may be flipped"
_GRAND = "Chamberlain et al. 2021, table 1"
LABEL = _detection(
    [
        ("MSP", "gcn", "ood_auroc[msp]", 91.36, _GNNSAFE, BACKBONE),
        ("energy", "gcn", "ood_auroc[energy]", 91.40, _GNNSAFE, BACKBONE),
        ("ODIN", "gcn", "ood_auroc[odin]", 49.24, _FLIPPED, BACKBONE),
        ("Mahalanobis", "gcn", "ood_auroc[mahalanobis]", 66.83, _FLIPPED, BACKBONE),
        ("GNNSafe", "gcn", "ood_auroc[gnnsafe]", 92.80, _GNNSAFE, BACKBONE),
        ("GEBM", "gcn", "ood_auroc[gebm]", None, "none on this split", BACKBONE),
        ("GNNSafe++", "gnnsafe++", "ood_auroc[gnnsafe]", 92.75, _GNNSAFE, {}),
        ("GPN, max p", "gpn", "ood_auroc[msp]", 90.34, _GNNSAFE, {}),
        ("GPN, entropy", "gpn", "ood_auroc", 90.34, _GNNSAFE, {}),
        ("GPN, vacuity", "gpn", "ood_auroc[vacuity]", 90.34, _GNNSAFE, {}),
        ("GKDE, vacuity", "gkde", "ood_auroc[vacuity]", 57.23, _GNNSAFE + "; 82.80 in the LGNSDE paper", {}),
        ("GNSD, propagated energy", "gnsd", "ood_auroc[gnsd]", 94.76, "Lin et al. 2024", {}),
        ("ensemble, propagated", "ensemble", "ood_auroc_propagated", 93.75, "quoted on the same benchmark", {}),
        ("MC dropout, propagated", "mc-dropout", "ood_auroc_propagated", 93.03, "quoted on the same benchmark", {}),
    ]
)
FEATURES = _detection(
    [
        ("MSP", "gcn", "ood_auroc[msp]", 85.39, _GNNSAFE, BACKBONE),
        ("energy", "gcn", "ood_auroc[energy]", 86.15, _GNNSAFE, BACKBONE),
        ("ODIN", "gcn", "ood_auroc[odin]", 49.80, _FLIPPED, BACKBONE),
        ("Mahalanobis", "gcn", "ood_auroc[mahalanobis]", 60.46, _FLIPPED, BACKBONE),
        ("GNNSafe", "gcn", "ood_auroc[gnnsafe]", 93.44, _GNNSAFE, BACKBONE),
        ("GEBM", "gcn", "ood_auroc[gebm]", None, "none on this split", BACKBONE),
        ("GNNSafe++", "gnnsafe++", "ood_auroc[gnnsafe]", 95.56, _GNNSAFE, {}),
        ("GPN, max p", "gpn", "ood_auroc[msp]", 85.88, _GNNSAFE, {}),
        ("GPN, vacuity", "gpn", "ood_auroc[vacuity]", 85.88, _GNNSAFE, {}),
        ("GKDE, vacuity", "gkde", "ood_auroc[vacuity]", 82.79, _GNNSAFE, {}),
        ("GNSD, propagated energy", "gnsd", "ood_auroc[gnsd]", 91.77, "Lin et al. 2024", {}),
    ]
)
SCORES = ("msp", "odin", "mahalanobis", "energy", "gnnsafe", "gebm", "vacuity", "mutual-information")
PROTOCOLS = (
    Protocol("planetoid", "Accuracy (%) on the public split", "misclassification", {"split": "planetoid"}, PLANETOID),
    Protocol(
        "gp-random",
        "Matérn GP on Cora's largest component, 140 random labels",
        "misclassification",
        {"split": "shchur"},
        tuple(_accuracies("graph-gp", "Matérn GP", {"cora": 78.7}, "Borovitskiy et al. 2021, one run", 3.0)),
    ),
    Protocol(
        "public-component",
        "Accuracy (%) on the public split, largest component only",
        "misclassification",
        {"split": "planetoid", "split_options": {"lcc": True}},
        (
            # PubMed is one component
            *_accuracies("grand", "GRAND-l", {"cora": 84.7, "citeseer": 73.3}, _GRAND),
            *_accuracies("grand", "GRAND-nl", {"cora": 83.6, "citeseer": 70.8}, _GRAND, variant="nonlinear"),
        ),
    ),
    Protocol(
        "component",
        "Accuracy (%) on the largest component, 20 random labels per class",
        "misclassification",
        {"split": "lcc-1500"},
        tuple(
            _accuracies(
                "grand",
                "GRAND-l",
                {"cora": 83.6, "citeseer": 73.4, "pubmed": 78.8},
                "Chamberlain et al. 2021, table 2",
            )
        ),
    ),
    Protocol(
        "label",
        "AUROC (%) of OOD classes, Cora, label leave-out",
        "ood",
        {"protocol": "label-leave-out", "scores": SCORES},
        LABEL,
    ),
    Protocol(
        "features",
        "AUROC (%) of shifted features, Cora",
        "ood",
        {"protocol": "features", "scores": SCORES},
        FEATURES,
    ),
)


def specs(claims: tuple[Claim, ...], dataset: str) -> list[ModelSpec]:
    found = {
        (claim.model, repr(claim.settings)): ModelSpec.parse(claim.model, claim.settings)
        for claim in claims
        if claim.dataset == dataset
    }
    return list(found.values())


def run(protocol: Protocol, dataset: str, seeds: int, workers: int | None, console: Console) -> None:
    def show(state: Progress) -> None:
        if state.cell is not None and state.outcome is not None:
            console.print(
                f"{protocol.name} {state.finished}/{state.total}",
                state.cell.dataset,
                state.cell.label,
                state.outcome.status,
            )

    if not specs(protocol.claims, dataset):
        return
    request = BenchRequest(
        task=protocol.task,
        datasets=(dataset,),
        models=tuple(specs(protocol.claims, dataset)),
        seeds=tuple(range(seeds)),
        options=protocol.options,
        workers=workers,
        renew=True,
    )
    run_bench(request, RESULTS / protocol.name, progress=show, say=console.print)


HEAD = """# All systems next to published figures

Every system in the protocol of the study that publishes it, next to that study's figure: mean ± standard deviation over
n seeds, in per cent. `within 1.5` (accuracy) and `within 3` (detection) mean that the means differ by at most so many
points, a fixed tolerance, since most studies publish no spread; otherwise the difference is shown. A version in
brackets is the earlier version of our code that made the row. What is behind the differences: [systems](systems.md).
`python studies/systems.py` runs what is missing.
"""


def page(seeds: int) -> str:
    parts = [HEAD]
    for protocol in PROTOCOLS:
        folder = BenchFolder(RESULTS / protocol.name)
        if not folder.question.is_file():
            continue
        latest = {record["id"]: record for record in folder.read()[1].records}
        rows = [row(protocol, claim, latest, seeds) for claim in protocol.claims]
        place = folder.path.relative_to(ROOT)
        told = f"Journal: [{place}](../{place}/journal.jsonl), `graphsde compare {place}`."
        parts.append(f"## {protocol.title}\n\n{markdown_table(rows)}\n{told}\n")
    return "\n".join(parts)


def row(protocol: Protocol, claim: Claim, latest: dict[str, Any], seeds: int) -> dict[str, Any]:
    spec = ModelSpec.parse(claim.model, claim.settings)
    cells: list[Cell] = plan_cells(protocol.task, protocol.options, [claim.dataset], [spec], range(seeds), GRAPHS)
    found = standing(cells, latest.values())
    former = former_version(found, cells)
    values = [
        r["metrics"][claim.metric] * 100.0 for r in found if r["status"] == "done" and claim.metric in r["metrics"]
    ]
    failed = sum(record["status"] != "done" for record in found)
    mean = math.fsum(values) / len(values) if values else None
    spread = (
        math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
        if mean is not None and len(values) > 1
        else None
    )
    if mean is None:
        ours = "—" if failed else "not run yet"
    else:
        ours = f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"
    line: dict[str, Any] = {
        "system": claim.system,
        "model": f"{claim.model} ({former})" if former else claim.model,
        "graph": claim.dataset,
        "ours": ours,
        "n": len(values),
    }
    if failed:
        line["n"] = f"{len(values)} ({failed} failed)"
    line |= {"published": claim.published, "source": claim.source, "agreement": _agreement(mean, claim)}
    return line


def _agreement(mean: float | None, claim: Claim) -> str:
    if mean is None or claim.published is None:
        return ""
    gap = mean - claim.published
    if abs(gap) <= claim.tolerance:
        return f"within {claim.tolerance:g}"
    return f"{gap:+.1f}"


GRAPHS: dict[str, Any] = {}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of protocols, with commas between")
    parser.add_argument("--graphs", default="cora,citeseer,pubmed", help="names of graphs, with commas between")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--show", action="store_true", help="run nothing, write the page from the journals")
    arguments = parser.parse_args()
    chosen = [name for name in arguments.only.split(",") if name]
    # the small graph first, so that a study cut short has something of everything
    for dataset in arguments.graphs.split(","):
        for wanted in PROTOCOLS:
            if not arguments.show and (not chosen or wanted.name in chosen):
                run(wanted, dataset, arguments.seeds, arguments.workers, Console(stderr=True))
    PAGE.write_text(page(arguments.seeds), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
