"""The page that sums up docs/results: every table in a line, our models next to the best other system, where they lose.

``python studies/results_pages.py`` writes it after the other pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from results_pages import (
    CONFIGS,
    DEFAULT,
    FIVE,
    PAGES_OF_TABLES,
    RESULTS,
    SEARCHED,
    SUBJECTS,
    in_order,
    judged_names,
    judged_records,
    rows_beside,
    seeds_run,
    spread,
)
from study_table import with_table

from graphsde.bench.cells import Cell
from graphsde.bench.compare import standings
from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper import TABLES, PaperTable
from graphsde.bench.reproduce import Beside, markdown_table, with_found

GCN = {"gcn", "gcn (tuned)"}
# so few runs are marked on the page that sums up, and make no verdict that is counted there
FEW = 2
# only the default has a temperature, which these reward
UNCOUNTED = ("nll", "ece")
WORDS = ("ahead", "tied", "behind")
MOST_NAMED = 3


def overview() -> str:
    """One line for each table: where it was run, how often our two models are ahead, tied and behind; then where the
    default is behind, and how the paper's network fares against a GCN."""
    lines, others, losses, waiting = [], list[str](), list[str](), list[str]()
    against_gcn: dict[str, list[str]] = {word: [] for word in WORDS}
    for name in PAGES_OF_TABLES:
        seeds: dict[str, list[int]] = {}
        found: dict[str, list[Judged]] = {subject: [] for subject in SUBJECTS}
        for plan in (with_found(part, CONFIGS, FIVE) for part in TABLES.get(name)):
            folder = BenchFolder(RESULTS / plan.name.replace(":", "-"))
            if not folder.question.is_file() or not (records := judged_records(plan, folder.read()[1].records)):
                continue
            for graph, own in seeds_run(records).items():
                seeds.setdefault(graph, []).extend(map(len, own.values()))
            for subject, verdicts in found.items():
                verdicts += verdicts_of(plan, records, subject)
        if not seeds:
            waiting.append(name)
            continue
        order = sorted(seeds, key=lambda graph: [*FIVE, *seeds].index(graph))
        graphs = ", ".join(f"{graph} {spread(min(seeds[graph]), max(seeds[graph]))}" for graph in order)
        if not all(found.values()):
            others.append(f"[{name}]({name}.md) ({graphs})")
            continue
        line = {"table": f"[{name}]({name}.md)", "graphs (seeds)": graphs}
        for subject, verdicts in found.items():
            counts = (sum(len(one.rivals[word]) for one in verdicts) for word in WORDS)
            line[f"{SUBJECTS[subject].lower()}: {' / '.join(WORDS)}"] = " / ".join(map(str, counts))
        lines.append(line)
        behind = [f"{one} ({_named(one.rivals['behind'])})" for one in found[DEFAULT] if one.rivals["behind"]]
        losses += [f"[{name}]({name}.md): {'; '.join(behind)}."] if behind else []
        for word, told in against_gcn.items():
            if name != "time":
                told += [f"{one} in [{name}]({name}.md)" for one in found[SEARCHED] if GCN & set(one.rivals[word])]
    ahead, tied, behind = (against_gcn[word] for word in WORDS)
    where = f" ({'; '.join(ahead)})" if ahead else ""
    text = [
        f"{markdown_table(lines)}\nNot counted: {', '.join(others)}."
        + (f" Not run yet: {', '.join(waiting)}." if waiting else "")
        + " What each table lacks: `graphsde reproduce --plan studies/paper.yaml`.",
        side_by_side().strip(),
        f"Of {len(ahead + tied + behind)} comparisons with a GCN, costs left out, the paper's network is ahead in "
        f"{len(ahead)}{where}, tied in {len(tied)} and behind in {len(behind)}.",
        f"**Where the default model is behind.** {' '.join(losses)}\n",
    ]
    return "\n\n".join(text)


# what the page that sums up shows of each table: its name, the figure, which end of it is better
SHOWN = (
    ("standard", "accuracy", max),
    ("standard", "aurc", min),
    ("noise", "accuracy", max),
    ("noise-edges", "accuracy", max),
    ("ood", "auroc", max),
    ("ood-every-class", "auroc", max),
    ("extended-ood:label-leave-out", "auroc", max),
    ("extended-ood:feature-perturbation", "auroc", max),
    ("extended-ood:structure", "auroc", max),
    ("active-printed:entropy", "accuracy", max),
    ("active-entropy", "accuracy", max),
)


def side_by_side() -> str:
    """The paper's network, its published figure, the default model and the best rival, graph by graph."""
    lines: list[dict[str, str]] = []
    for name, figure, better in SHOWN:
        (plan,) = (one for one in TABLES.get(name.partition(":")[0]) if one.name == name)
        folder = BenchFolder(RESULTS / name.replace(":", "-"))
        if not folder.question.is_file():
            continue
        rows = rows_beside(with_found(plan, CONFIGS, FIVE), folder.read()[1].records)
        rows = [row for row in rows if row.metric == figure]
        if not plan.comparable:
            rows = [replace(row, printed=None) for row in rows]
        told = {graph: _four(rows, graph, better, plan.scale) for graph in (*FIVE, "coauthor-cs")}
        lines.append({"table": name.replace(":", ", ").replace("-", " "), "figure": figure} | told)
    graphs = [graph for graph in (*FIVE, "coauthor-cs") if any(line[graph] for line in lines)]
    return markdown_table(lines, ["table", "figure", *graphs])


def _four(rows: list[Beside], graph: str, better: Callable[..., Beside], scale: float) -> str:
    """Nothing where neither of our two models was run; one run or two are marked with an asterisk."""
    own = {row.model: row for row in rows if row.dataset == graph and row.mean is not None}
    text, default = (own.get(name) for name in SUBJECTS)
    if text is None and default is None:
        return ""
    rivals = [row for name, row in own.items() if not name.startswith("lgnsde")]
    best = better(rivals, key=lambda row: row.mean) if rivals else None
    published = next((row.printed for row in rows if row.dataset == graph and row.system == "lgnsde"), None)
    ours = [_short(row, scale) for row in (text, default, best)]
    told = [ours[0], "–" if published is None else _three_digits(published / scale), *ours[1:]]
    return " / ".join(told) + (f" ({best.model})" if best is not None else "")


def share_of(table: str, graph: str, model: str, figure: str, *, missing: bool = False) -> float:
    """The mean of a row as a share, or with ``missing`` what it is below the published figure."""
    (plan,) = (one for one in TABLES.get(table.partition(":")[0]) if one.name == table)
    folder = BenchFolder(RESULTS / table.replace(":", "-"))
    rows = rows_beside(with_found(plan, CONFIGS, FIVE), folder.read()[1].records)
    (row,) = (one for one in rows if (one.dataset, one.model, one.metric) == (graph, model, figure))
    assert row.mean is not None
    if missing:
        assert row.printed is not None
        return (row.printed - row.mean) / plan.scale
    return row.mean / plan.scale


def _short(row: Beside | None, scale: float) -> str:
    if row is None or row.mean is None:
        return "–"
    return _three_digits(row.mean / scale) + ("" if row.n > FEW else "*")


def _three_digits(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")


@dataclass(frozen=True)
class Judged:
    """One of our models on one graph by one figure: other systems by verdict."""

    part: str
    graph: str
    figure: str
    rivals: dict[str, list[str]]

    def __str__(self) -> str:
        return f"{f'{self.part}, ' if self.part else ''}{self.figure} on {self.graph}"


def _named(rivals: list[str]) -> str:
    """A few by name; the page of the table names all."""
    return ", ".join(rivals) if len(rivals) <= MOST_NAMED else f"{len(rivals)} rivals"


def verdicts_of(plan: PaperTable, records: list[Any], subject: str) -> list[Judged]:
    """By the figures that count, of systems with enough runs; variants of LGNSDE are not rivals."""
    seeds = seeds_run(records)
    cells = [Cell(**record["cell"]) for record in records]
    records = [record for record, one in zip(records, cells, strict=True) if len(seeds[one.dataset][one.label]) > FEW]
    names = {plan.metrics[one]: one for one in judged_names(plan) if one not in UNCOUNTED}
    part = plan.name.partition(":")[2].replace("-", " ")
    return [
        Judged(
            part,
            one.dataset,
            names[one.metric],
            {word: [name for name in getattr(one, word) if not name.startswith("lgnsde")] for word in WORDS},
        )
        for one in in_order(plan, standings(records, subject, list(names)))
    ]


def with_overview(text: str) -> str:
    """The page that sums up, with its table as the journals give it."""
    return with_table(text, "python studies/results_pages.py", overview())


def write_summary(pages: Path) -> None:
    front = pages / "README.md"
    front.write_text(with_overview(front.read_text(encoding="utf-8")), encoding="utf-8")
