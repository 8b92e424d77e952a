"""Pages under docs/results from the journals under results: our figures and the paper's, wins, ties and losses.

    python studies/results_pages.py

Runs nothing: `graphsde reproduce TABLE --out results` does. A table without a journal gets no page.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsde.bench.cells import Cell
from graphsde.bench.compare import Row, compare, standings
from graphsde.bench.direction import aim_of
from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper import TABLES, PaperTable
from graphsde.bench.plan import Searches, Step, read_plan
from graphsde.bench.reproduce import Beside, beside_table, by_system, markdown_table, row_name, with_found
from graphsde.bench.search import best_trial, place_of, read_trials
from graphsde.cli.reproduce import everything
from graphsde.datasets.source import open_graph
from graphsde.datasets.splits import SPLITS
from graphsde.io.table_export import write_table
from graphsde.view.figures.bench import MetricIntervals, beside_picture
from graphsde.view.figures.style import save_figure

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGES, CONFIGS = ROOT / "results", ROOT / "docs" / "results", ROOT / "configs" / "equal"
MACHINE = "two cores, 24 GB, torch 2.13 on the CPU"
# of records that do not name theirs
FORMER_PROCESSOR = "AMD EPYC"
# how rows are marked that only an earlier version of the code has made
FORMER = " (version "
# opened once
GRAPHS: dict[str, Any] = {}
PLAN = read_plan(ROOT / "studies" / "paper.yaml")
FIVE = ("cora", "citeseer", "pubmed", "photo", "computers")
# the two models that are judged against every other
SEARCHED, DEFAULT = "lgnsde@paper (tuned)", "lgnsde"
SUBJECTS = {SEARCHED: "The paper's network", DEFAULT: "The default model"}

CORRECTION = (
    "Paired t-tests on common seeds. Holm's correction is over the rivals of the leader in the first table and over "
    "those of the named model in the others; a model that is behind the leader in the first is behind it in its own "
    "table, too."
)


def page(table: str, pages: Path, draw: bool = True) -> str:
    """All parts of one table, with their CSV files and pictures in ``pages``; nothing where there is no journal."""
    parts = []
    for plan in (with_found(one, CONFIGS, FIVE) for one in TABLES.get(table)):
        name, _, part = plan.name.partition(":")
        folder = BenchFolder(RESULTS / plan.name.replace(":", "-"))
        if not folder.question.is_file():
            continue
        records = folder.read()[1].records
        judged = judged_records(plan, records)
        if not judged:
            continue
        rows = rows_beside(plan, records)
        stem = folder.path.name
        write_rows([row.as_dict() for row in rows], pages / f"{stem}.csv")
        picture = beside_picture(rows)
        if draw and picture is not None:
            picture.save(pages / f"{stem}.png")
        told = part or ("" if name == table else name)
        text = [f"## {words(told)}"] if told else []
        shown_rows = [row for row in rows if row.metric not in IN_CSV_ALONE]
        text += [plan.about, legend(stem, rows), beside_table(shown_rows, intervals=False), *notes(rows)]
        text += not_run(table, plan, rows)
        if picture is not None:
            text.append(f"![Our figures and the published ones]({stem}.png)")
        metrics = {plan.metrics[printed]: printed for printed in judged_names(plan)}
        if metrics and len({Cell(**record["cell"]).label for record in judged}) > 1:
            compared = in_order(plan, compare(judged, list(metrics)))
            text += [
                "### Leaders",
                verdict_table(compared, judged, metrics, plan.scale),
                *rivals(plan, judged, metrics),
            ]
        shown = rows_of(plan, records)
        text.append(f"{made_by(table)}; {machines(shown)} {journal_of(folder, shown, records)}")
        text += fewer_seeds(judged)
        if plan.name == "active-printed:random":
            text += ["## Statistics: the graphs before and after", STATISTICS, statistics()]
        if table == "standard-searched":
            text += ["### What the searches tried and found", SEARCHES, searches(), single_seed()]
        parts.append("\n\n".join(text))
    return "\n\n".join(parts)


# of the extended benchmark, whose tables would otherwise be too wide to read
IN_CSV_ALONE = {
    "detection-accuracy exact",
    *(f"{name} propagated" for name in ("aupr-in", "aupr-out", "fpr95", "detection-accuracy")),
}


def rows_beside(plan: PaperTable, records: list[Any]) -> list[Beside]:
    """Our rows and the published ones; rows that only earlier versions of the code have made are not shown."""
    return [row for row in everything(plan, records, GRAPHS) if FORMER not in row.model]


def legend(stem: str, rows: list[Beside]) -> str:
    text = f"Mean ± standard deviation over n seeds; 95 % intervals of the means are in [{stem}.csv]({stem}.csv)."
    compared = [row for row in rows if row.agreement]
    if not compared:
        return text
    text += " Ours `agrees` with a published figure if the two are within one joint standard deviation"
    if any(row.printed_std is None for row in compared):
        text += ", or, where no spread is published, within three points or our standard deviation, if that is larger"
    return f"{text}; otherwise it is `better` or `worse`."


def notes(rows: list[Beside]) -> list[str]:
    """What a reader must know of a row that is shown."""
    found = dict.fromkeys((row.model, row.note) for row in rows if row.note and (row.n or row.failed))
    return ["Rows: " + "; ".join(f"`{model}`: {note}" for model, note in found) + "."] if found else []


def not_run(table: str, plan: PaperTable, rows: list[Beside]) -> list[str]:
    """Graphs and rows that are still to be run, and the table's graphs that are not planned."""
    begun: dict[str, set[str]] = {}
    for row in rows:
        if row.n or row.failed:
            begun.setdefault(row.dataset, set()).add(row.model)
    graphs, systems = list[str](), list[str]()
    for graph, wanted in planned(table, plan).items():
        if graph not in begun:
            graphs.append(graph)
        elif absent := [name for name in wanted if not any(_is_row(name, model) for model in begun[graph])]:
            systems.append(f"{', '.join(absent)} on {graph}")
    others = [graph for graph in plan.datasets if graph not in begun and graph not in graphs]
    told = {"Not run yet": ", ".join(graphs), "Rows not run yet": "; ".join(systems), "Not planned": ", ".join(others)}
    return [f"{when}: {names}." for when, names in told.items() if names]


def planned(table: str, plan: PaperTable) -> dict[str, list[str]]:
    """Graphs of a table in the plan, each with the rows that are to be run there."""
    found: dict[str, list[str]] = {}
    for step in PLAN.steps:
        if isinstance(step, Step) and step.table == table:
            for graph in step.graphs:
                rows = PLAN.systems_of(step) or [row.name for row in plan.systems]
                found.setdefault(graph, []).extend(row for row in dict.fromkeys(rows) if row in names_of(plan))
    order = (*plan.datasets, *found)
    return {graph: found[graph] for graph in sorted(found, key=order.index)}


def names_of(plan: PaperTable) -> set[str]:
    return {row.name for row in plan.systems}


def _is_row(name: str, model: str) -> bool:
    """Whether a row of a table is one of a system's, which may have several, by score or by value."""
    return model == name or model.startswith((f"{name} by ", f"{name}, "))


# nodes, links, first and last number of training labels, as the paper prints them
PUBLISHED_STATISTICS = {
    "cora": (2708, 5429, 140, 280),
    "citeseer": (3327, 4732, 120, 240),
    "pubmed": (19717, 44338, 60, 120),
    "photo": (7650, 119081, 160, 320),
    "computers": (13752, 245861, 200, 400),
}
STATISTICS = (
    "The paper's table of statistics, next to the graphs and the split `paper-statistics` as they are here. Links are "
    "counted once; the published numbers for the citation graphs also count duplicates and self-loops of the source."
)


def statistics() -> str:
    lines = []
    for name, (nodes, links, first, last) in PUBLISHED_STATISTICS.items():
        graph = open_graph(name)
        split = SPLITS.get("paper-statistics")(graph, seed=0)
        sizes = {role: int(mask.sum()) for role, mask in split.masks.items()}
        lines.append(
            {
                "graph": name,
                "nodes": f"{graph.num_nodes:,}",
                "nodes published": f"{nodes:,}",
                "links": f"{graph.num_edges // 2:,}",
                "links published": f"{links:,}",
                "training / validation / test": f"{sizes['train']} / {sizes['val']} / {sizes['test']}",
                "training labels, first to last": f"{sizes['train']} to {2 * sizes['train']}",
                "labels published": f"{first} to {last}",
            }
        )
    return markdown_table(lines)


SEARCHES = (
    "Validation NLL, mean over the seeds of a trial: of a system's own settings with those that are held, and of the "
    "best trial. `besides the grid`: settings and points that were tried in addition to the paper's grid. A trial has "
    "failed if one of its trainings has, by running out of its time, say. Trials and their journals are under "
    "[results/search-equal](../../results/search-equal), the settings found under "
    "[configs/equal](../../configs/equal): `graphsde fit cora --config configs/equal/gcn-cora.yaml --out RUN`."
)


def searches() -> str:
    """Every search of the plan that has begun: what it tried, and what it found."""
    lines = []
    for step in (step for step in PLAN.steps if isinstance(step, Searches)):
        for graph, model in itertools.product(step.graphs, step.models):
            trials = read_trials(RESULTS / step.folder / place_of(model, graph), step.select, step.runs)
            if not any(trial.value is not None for trial in trials):
                continue
            best, planned = best_trial(trials, step.select), step.trials + step.around
            more = [*step.also.get(model, {}), *(_told_of(point) for point in step.named.get(model, ()))]
            lines.append(
                {
                    "graph": graph,
                    "system": model,
                    "trials": f"{len(trials)} of {planned}"
                    if len(trials) <= planned
                    else f"{planned} + {len(trials) - planned}",
                    "failed": sum(trial.value is None for trial in trials),
                    "own settings": "failed" if trials[0].value is None else f"{trials[0].value:.3f}",
                    "best": f"{best.value:.3f}",
                    "what it changed": _told_of(best.chosen) or "nothing",
                    "held": _told_of(step.held.get(model, {})),
                    "besides the grid": "; ".join(more),
                    "CPU minutes": f"{sum(trial.cpu_seconds for trial in trials) / 60:.0f}",
                }
            )
    return markdown_table(sorted(lines, key=lambda line: (FIVE.index(line["graph"]), line["system"])))


def single_seed() -> str:
    """Settings that looked good in one run, on validation nodes, with more seeds."""
    folder = BenchFolder(RESULTS / "search-lead")
    if not folder.question.is_file():
        return ""
    rows = {row.metric: row for row in compare(folder.read()[1].records, ["val_nll", "val_accuracy"])}
    nll, accuracy = rows["val_nll"], rows["val_accuracy"]
    return (
        "Settings of the paper's network that had a test accuracy of .822 on Cora in one earlier run (sigma 7, "
        "weight decay .01, selection by accuracy, patience 48, ten steps, validation after every epoch) do not hold "
        f"with more seeds: validation NLL {nll.mean:.2f} ± {nll.std:.2f}, validation accuracy {accuracy.mean:.3f} ± "
        f"{accuracy.std:.3f} over {nll.n} seeds ([journal](../../results/search-lead/journal.jsonl)). "
        "A trial may have the same validation NLL as another where what it changes has no effect, such as a longer "
        "patience."
    )


def _told_of(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def write_rows(rows: list[dict[str, Any]], path: Path) -> None:
    write_table({name: [row[name] for row in rows] for name in rows[0]}, path)


def title_of(name: str) -> str:
    """What the site's table of contents calls a page."""
    found = re.search(rf"^ *- (.+): results/{name}\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    return found[1] if found else words(name)


def words(name: str) -> str:
    """A name as a heading."""
    told = name.replace("-", " ").capitalize()
    return f"OOD{told[3:]}" if told.startswith("Ood") else told.replace(" ood", " OOD")


def judged_names(plan: PaperTable) -> list[str]:
    """What verdicts of a table are made on, as it is published."""
    return list(plan.metrics if plan.judged is None else plan.judged)


def judged_records(plan: PaperTable, records: list[Any]) -> list[Any]:
    """One record for every run of every row, under the row's name, with what the table shows of it: of a row that has a
    score of its own, what that score gives."""
    seeds = sorted({record["cell"]["seed"] for record in records})
    found = []
    for graph in dict.fromkeys(record["cell"]["dataset"] for record in records):
        for system, own in by_system(plan, records, graph, [], seeds, GRAPHS):
            if system.former:
                continue
            called = row_name(system)
            for record in own:
                known = record.get("metrics") or {}
                shown = {plan.metrics[one]: known.get(plan.metric_of(system, one)) for one in plan.metrics}
                metrics = {name: value for name, value in shown.items() if value is not None}
                changed = {"id": f"{record['id']} {called}", "metrics": metrics, "of": record["id"]}
                found.append(record | changed | {"cell": record["cell"] | {"called": called}})
    return found


def rows_of(plan: PaperTable, records: list[Any]) -> list[Any]:
    """The records of the table's rows, under the names of these rows, each record once."""
    seeds = sorted({record["cell"]["seed"] for record in records})
    found: dict[str, Any] = {}
    for graph in dict.fromkeys(record["cell"]["dataset"] for record in records):
        for system, own in by_system(plan, records, graph, [], seeds, GRAPHS):
            called = system.name
            for record in [] if system.former else own:
                if record["id"] not in found or system.tuned:  # a search may end where it began
                    found[record["id"]] = record | {"cell": record["cell"] | {"called": called}}
    return list(found.values())


def rivals(plan: PaperTable, judged: list[Any], metrics: dict[str, str]) -> list[str]:
    """What the paper's network and the default model are ahead of, tied with and behind."""
    text = []
    for subject, title in SUBJECTS.items():
        lines = []
        for one in in_order(plan, standings(judged, subject, list(metrics))):
            rivals = len(one.ahead) + len(one.tied) + len(one.behind)
            line = {"graph": one.dataset, "metric": arrowed(one.metric, metrics)}
            for word, named in (("ahead of", one.ahead), ("tied with", one.tied), ("behind", one.behind)):
                line[word] = f"all {rivals}" if len(named) == rivals > 1 else "; ".join(named)
            lines.append(line | {"pairs": spread(one.fewest, one.most)})
        if lines:
            text += [f"### {title}, rival by rival", markdown_table(lines)]
    return [*text, CORRECTION] if text else []


def arrowed(metric: str, names: dict[str, str]) -> str:
    """A metric as the table calls it, with the direction that is better."""
    return f"{names.get(metric, metric)} {'↑' if aim_of(metric) == 'higher' else '↓'}"


def in_order(plan: PaperTable, rows: list[Any]) -> list[Any]:
    """Graphs as the table has them."""
    return sorted(rows, key=lambda row: (*plan.datasets, row.dataset).index(row.dataset))


def spread(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest} to {most}"


def seeds_run(records: list[Any]) -> dict[str, dict[str, set[int]]]:
    """Seeds by graph and system."""
    seeds: dict[str, dict[str, set[int]]] = {}
    for record in records:
        cell = Cell(**record["cell"])
        seeds.setdefault(cell.dataset, {}).setdefault(cell.label, set()).add(cell.seed)
    return seeds


def made_by(table: str) -> str:
    return (
        f"`graphsde reproduce --plan studies/paper.yaml`; this table alone: `graphsde reproduce {table} --out results`"
    )


def journal_of(folder: BenchFolder, shown: list[Any], records: list[Any]) -> str:
    """Where every figure of a table comes from, and what else is there."""
    place = folder.path.relative_to(ROOT)
    text = f"Journal: [{place}](../../{place}/journal.jsonl), `graphsde compare {place}`"
    known = {record["id"] for record in shown}
    others = {Cell(**record["cell"]).label.partition("[")[0] for record in records if record["id"] not in known}
    if not others:
        return f"{text}."
    return f"{text}. The journal also has what this table does not show: {', '.join(sorted(others))}."


def fewer_seeds(records: list[Any]) -> list[str]:
    """Which systems have fewer seeds on a graph than others."""
    found = []
    for graph, models in seeds_run(records).items():
        most = max(map(len, models.values()))
        fewer = [f"{label} {len(seeds)}" for label, seeds in models.items() if len(seeds) < most]
        if fewer:
            found.append(f"Fewer than {most} seeds on {graph}: {', '.join(fewer)}.")
    return [" ".join(found)] if found else []


@dataclass(frozen=True)
class Study:
    """A bench that no printed table has: the folder under results, what was asked, and what is shown (else what the
    task shows first)."""

    folder: str
    about: str
    command: str
    metrics: tuple[str, ...] = ()


STUDIES = {
    "controls": Study(
        "controls",
        "Simple models in the standard setting: public split of the citation graphs, the given split of "
        "`digits`, test nodes only; the default settings of each model.",
        "graphsde bench misclassification --datasets {graphs} --models {models} --seeds {seeds} --out results/controls",
    ),
    "active-fresh": Study(
        "active-fresh",
        "120 labels acquired at random at once, then a new fit: what labels are worth without the paper's protocol of "
        "25 epochs after every five labels ([active-random](active-random.md)), under which the default model loses "
        "accuracy on CiteSeer. `accuracy_area` is the mean before and after.",
        "graphsde bench active --datasets {graphs} --models {models} --seeds {seeds} --option acquisition=random "
        "--option batch=120 --option rounds=1 --option start=fresh --out results/active-fresh",
    ),
    "noise-and-averaging": Study(
        "noise-and-averaging",
        "A likely reason why the default model falls behind with much noise on Photo (.853 at severity 2, which is "
        "noise of twice the features' standard deviation: [noise-sweep](noise-sweep.md)): it transforms features node "
        "by node and averages over neighbours afterwards. `sgc` and `logistic-hops` average features first, so that "
        "independent noise cancels, and lose less on Photo, where a node has 31 neighbours on average; an MLP, which "
        "never averages, loses most. These models differ in more than that order, so it is no proof.",
        "graphsde bench noise --datasets {graphs} --models {models} --seeds {seeds} --option severities=[0.5,1,2] "
        "--option draws=2 --out results/noise-and-averaging",
        ("accuracy@2", "accuracy@1", "accuracy@0.5", "accuracy@0"),
    ),
    "regression": Study(
        "regression",
        "Numeric targets; each seed has its own split (50 % training, 15 % validation, 35 % test) and initialisation, "
        "on test nodes only. [What they say](../regression.md#results).",
        "graphsde bench regression --datasets {graphs} --models {models} --seeds {seeds} --option split=fractions "
        "--option split_options.train=0.5 --option split_options.val=0.15 --option split_options.calibration=0 "
        "--option split_options.test=0.35 --out results/regression",
    ),
    "full-elbo": Study(
        "full-elbo",
        "The paper's network with the full ELBO of its text: the KL is summed over all nodes, and drives the posterior "
        "onto its prior: accuracy is near chance, where the preset `paper`, which weighs the KL as the authors' code "
        "does, has .78 ([sigma-and-kl](sigma-and-kl.md)).",
        "graphsde bench misclassification --datasets {graphs} --models lgnsde@paper --set kl_weight=1 "
        "--set kl_unit=elbo --seeds {seeds} --out results/full-elbo",
    ),
}


STUDY_LEGEND = "Mean ± standard deviation over n seeds (95 % interval of the mean), by the package's names of figures."


def study_page(name: str, study: Study, pages: Path, draw: bool = True) -> str:
    """The table of one bench, or nothing where there is no journal."""
    folder = BenchFolder(RESULTS / study.folder)
    if not folder.question.is_file():
        return ""
    records = folder.read()[1].records
    rows = compare(records, list(study.metrics) or None)
    command = study.command.replace("{models}", ",".join(dict.fromkeys(plain(row.model) for row in rows)))
    write_rows([row.as_dict() | {"causes": ", ".join(row.causes)} for row in rows], pages / f"{name}.csv")
    text = [study.about, STUDY_LEGEND, figures_table(rows)]
    if len({row.model for row in rows}) > 1:
        text += ["### Leaders", verdict_table(rows, records, {})]
        first = rows[0].metric
        for graph in dict.fromkeys(row.dataset for row in rows):
            picture = pages / f"{name}-{graph}.png"
            if draw:
                save_figure(MetricIntervals.of(records, rows, graph, first).matplotlib(), picture)
            text.append(f"![{first} on {graph}: runs, means and their intervals]({picture.name})")
    told = f"{commands(command, records)}; {machines(records)} {journal_of(folder, records, records)}"
    return "\n\n".join([*text, told, *fewer_seeds(records)])


def plain(label: str) -> str:
    """A model's name on the command line."""
    return label.removesuffix(" (tuned)")


def commands(template: str, records: list[Any]) -> str:
    """The command for each number of seeds, with the graphs that had so many."""
    seeds: dict[str, set[int]] = {}
    for record in records:
        seeds.setdefault(record["cell"]["dataset"], set()).add(record["cell"]["seed"])
    alike: dict[int, list[str]] = {}
    for graph, own in seeds.items():
        alike.setdefault(len(own), []).append(graph)
    return ", ".join(f"`{template.format(graphs=','.join(graphs), seeds=n)}`" for n, graphs in alike.items())


def figures_table(rows: list[Row]) -> str:
    """One line per graph and model, one column per metric."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault((row.dataset, row.model), {"graph": row.dataset, "model": row.model})
        if row.mean is None:
            line[row.metric] = "—"
        else:
            line[row.metric] = f"{row.mean:.4f}"
            if row.std is not None:
                line[row.metric] += f" ± {row.std:.4f} ({row.ci_low:.3f} to {row.ci_high:.3f})"
    # how many runs are behind a line is the same for all its metrics
    counts = {(row.dataset, row.model): {"n": row.n, "failed": row.failed} for row in rows}
    return markdown_table([line | counts[key] for key, line in lines.items()])


def verdict_table(rows: list[Row], records: list[Any], names: dict[str, str], scale: float = 1.0) -> str:
    """One line per graph and metric: the leader, the models statistically tied with it, those behind."""
    seeds, lines = seeds_run(records), list[dict[str, Any]]()
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        own = [row for row in rows if (row.dataset, row.metric) == (dataset, metric) and row.mean is not None]
        if not own:
            continue
        leader, *others = own
        tied, behind = ([row.model for row in others if row.verdict == word] for word in ("tied", "behind"))
        pairs = [len(seeds[dataset][leader.model] & seeds[dataset][row.model]) for row in others]
        lines.append(
            {
                "graph": dataset,
                "metric": arrowed(metric, names),
                "leader": f"{leader.model} {_told(leader, scale)}",
                "alone": "yes" if leader.verdict == "best" else "no",
                "statistically tied with it": "; ".join(tied),
                "behind": "; ".join(behind),
                "pairs": spread(min(pairs, default=0), max(pairs, default=0)),
            }
        )
    return markdown_table(lines)


def _told(row: Row, scale: float) -> str:
    """The mean of a row that has one, in the unit of its table."""
    mean = scale * (row.mean or 0.0)
    return f"{mean:,.0f}" if abs(mean) >= 1000 else f"{mean:.4f}" if scale == 1 else f"{mean:.2f}"


def machines(records: list[dict[str, Any]]) -> str:
    done = [record for record in records if record["status"] == "done"]
    failed = len(records) - len(done)
    hours = sum(record["seconds"]["cpu"] for record in records) / 3600
    named = {record["environment"].get("processor", FORMER_PROCESSOR) for record in records}
    processors = " and ".join(sorted(name.replace("(R)", "").removesuffix(" Processor") for name in named))
    return f"{len(done)} cells, {failed} failed, {hours:.1f} processor hours; {processors}, {MACHINE}."


# in the order of the plan that runs them
PAGES_OF_TABLES = [
    name
    for name in dict.fromkeys(step.table for step in PLAN.steps if isinstance(step, Step))
    if not name.startswith("figure-")
]


def write_page(name: str, pages: Path, draw: bool = True) -> bool:
    """The page of a table or study, if it has a journal."""
    text = study_page(name, STUDIES[name], pages, draw) if name in STUDIES else page(name, pages, draw)
    if text:
        about = "" if name in STUDIES else f": {TABLES.entry(name).summary}"
        (pages / f"{name}.md").write_text(f"# {title_of(name)}{about}\n\n{text}\n", encoding="utf-8")
    return bool(text)


if __name__ == "__main__":
    from results_summary import write_summary  # which imports this module

    print("\n".join(name for name in (*PAGES_OF_TABLES, *STUDIES) if write_page(name, PAGES)))
    write_summary(PAGES)
