"""Verbs that act on what a run says of its nodes: ``predict``, ``ask``, ``learn``, ``explain``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from graphsde.base.errors import BadUsage
from graphsde.cli.options import (
    DEVICE,
    JSON,
    MEMORY,
    READ,
    RUN,
    SAMPLES,
    key_values,
    names_in,
    on_its_device,
    within_its_memory,
)
from graphsde.cli.output import opened_run, print_json, print_of_run, print_table, say, tell

if TYPE_CHECKING:
    from graphsde.acting.ask import Purpose
    from graphsde.graph.graph import Graph
    from graphsde.metrics.intervals import Difference
    from graphsde.runs.learn import Learned


@on_its_device
@within_its_memory
def predict(
    run: Annotated[Path, RUN],
    out: Annotated[
        Path | None, typer.Option("--out", help="A .csv or .parquet file; default: predictions.csv in the run.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", help="Another graph with the same columns; default: the run's own.")
    ] = None,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the samples; default: the model's.")] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    device: Annotated[str | None, DEVICE] = None,
    memory: Annotated[str | None, MEMORY] = None,
) -> None:
    """Predict every node of the run's graph, or of another one, with its uncertainty."""
    from graphsde.datasets.source import open_graph
    from graphsde.graph.settled import settled_within_limit
    from graphsde.io.table_export import write_table
    from graphsde.prediction.columns import prediction_columns
    from graphsde.runs.folder import RunFolder

    folder, given = RunFolder(run), key_values(read, "--read")
    if graph is not None:
        target = settled_within_limit(open_graph(graph, **folder.reading(graph, given)))
        prediction = folder.load_model().predict(target, samples=samples, seed=seed)
    elif given:
        raise BadUsage("--read is for another graph: the run's own is read as it was", fix="leave it out")
    else:
        opened = opened_run(run)
        target, prediction = opened.graph, opened.prediction(samples, seed)
    out = run / (f"predictions{'' if graph is None else '-' + _file_name(target.name)}.csv") if out is None else out
    write_table(prediction_columns(prediction, target), out)
    tell(f"{prediction.num_items:,} predictions in {out}")


def _file_name(name: str) -> str:
    """A graph's name as a part of a file's."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:50] or "other"


@within_its_memory
def ask(
    run: Annotated[Path, RUN],
    budget: Annotated[int, typer.Option("--budget", min=1, help="How many nodes to ask for.")] = 20,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", help="Who chooses (list acquisitions); default: entropy.", autocompletion=names_in("acquisitions")
        ),
    ] = None,
    purpose: Annotated[
        str,
        typer.Option(
            "--for", help="training (the default), or calibration: drawn at random, to certify stricter limits."
        ),
    ] = "training",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="A .csv or .parquet file with an empty label column; default: questions.csv in the run."
        ),
    ] = None,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int, typer.Option("--seed", min=0, help="For acquisitions that draw.")] = 0,
    plain: Annotated[
        bool, typer.Option("--plain", help="The plain ranking, even if it asks for one spot many times over.")
    ] = False,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Choose the nodes whose labels would help most, with the reason for each."""
    from graphsde.acting.acquisition import ACQUISITIONS
    from graphsde.acting.ask import ask as choose
    from graphsde.io.table_export import require_table_name, write_table
    from graphsde.prediction.columns import with_node_names

    if purpose not in ("training", "calibration"):
        raise BadUsage(f"there is no purpose '{purpose}' of labels", found=purpose, expected="training or calibration")
    if purpose == "calibration" and by not in (None, "random"):
        raise BadUsage(
            "labels for calibration are drawn at random: a guarantee rests on that",
            found=f"--by {by}",
            fix="leave it out",
        )
    by = by or "entropy"
    ACQUISITIONS.entry(by)  # a wrong name is told before the work begins
    if out is not None:
        require_table_name(out)
    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    questions = choose(
        opened.prediction(samples),
        graph,
        budget,
        by,
        seed,
        diverse=not plain,
        purpose=cast("Purpose", purpose),
    )
    out = _unanswered(run, "questions" if purpose == "training" else "calibration") if out is None else out
    write_table(with_node_names(questions.columns(), graph), out)
    if json:
        asked = questions.as_dict()
        asked |= {"out": str(out), "questions": _with_names(graph, asked["questions"])}
        print_of_run(run, model, graph, asked)
        return
    rows = [
        {
            "rank": one.rank,
            **_shown_node(graph, one.id, "id"),
            "predicted": one.predicted,
            questions.score: one.score,
            "why": one.reason,
        }
        for one in questions
    ]
    print_table(rows)
    if questions.note is not None:
        tell(questions.note)
    then = f"graphsde learn {run} {out}" if purpose == "training" else f"graphsde decide {run} --further-labels {out}"
    tell(f"{len(questions)} questions are in {out}. Fill in the column label, then: {then}")


def _unanswered(run: Path, name: str) -> Path:
    """The first file of the name, or of its successors, that holds no answers which would be lost."""
    from graphsde.runs.new_labels import answers_in

    number = 1
    while answers_in(path := run / (f"{name}.csv" if number == 1 else f"{name}-{number}.csv")):
        number += 1
    return path


def _with_names(graph: Graph, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows about nodes with ``name`` after ``id``, where the graph has names."""
    from graphsde.acting.explain import position_of

    if graph.node_names is None:
        return list(rows)
    return [{"id": one["id"], "name": graph.node_name(position_of(graph, one["id"])), **one} for one in rows]


def _shown_node(graph: Graph, node: int | str, column: str) -> dict[str, str | None]:
    """An id as a cell, and the node's name as the next one where the graph has names."""
    from graphsde.acting.explain import position_of

    named = {} if graph.node_names is None else {"name": graph.node_name(position_of(graph, node))}
    return {column: str(node), **named}


@on_its_device
def learn(
    run: Annotated[Path, RUN],
    labels: Annotated[Path, typer.Argument(help="A .csv or .parquet file with the columns id and label.")],
    graph: Annotated[
        str | None, typer.Option("--graph", help="The graph where it has grown; known nodes are matched by id.")
    ] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="At most so many; default: the run's.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin with new weights, not with the present ones.")] = False,
    device: Annotated[str | None, DEVICE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Take in new labels, fit on from the present model, and show what changed. Earlier rounds are kept."""
    from graphsde.nn.callbacks import ProgressBar
    from graphsde.runs.learn import COMPARED
    from graphsde.runs.learn import learn as take_in
    from graphsde.runs.new_labels import GivenLabels

    learned = take_in(
        run,
        GivenLabels.read(labels),
        graph=graph,
        options=key_values(read, "--read") or None,
        epochs=epochs,
        fresh=fresh,
        callbacks=[ProgressBar("learning")],
        say=say,
    )
    if json:
        said = {"within_noise": learned.within_noise, "verdict": learned.verdict()}
        print_json({**learned.as_dict(), **said, "history": str(learned.history)})
        return
    if learned.already_known:
        tell(f"All {learned.known} labels are in use already: nothing to do. The last round:")
    tell(_headline(learned))
    change = learned.change
    rows = [
        _row(name, learned.before[name], learned.after[name], learned.differences.get(name))
        for name in COMPARED
        if name in learned.before
    ]
    rows.append(_row(*change.uncertainty))
    if change.epistemic_before is not None and change.epistemic_after is not None:
        rows.append(_row("mean epistemic", change.epistemic_before, change.epistemic_after))
    print_table(rows)
    tell(*filter(None, [learned.verdict(), change.sentence()]))
    moved = change.moved_rows()
    if moved:
        tell("Those that moved most:")
        print_table(moved[:5])
    if learned.gain is not None and len(learned.gain.rounds) > 2:
        tell(learned.gain.sentence())
        print_table([{"round": one.round, "labels": one.training_nodes, **one.figures} for one in learned.gain.rounds])
    tell(f"The round before is in {learned.history}. Next: graphsde ask {learned.run}")


def _headline(learned: Learned) -> str:
    parts = [f"Round {learned.round}: {learned.added} new labels, {learned.training_nodes:,} training nodes"]
    if learned.from_test:
        parts.append(f"{learned.from_test} of the labels are of nodes that were tested so far")
    if learned.known:
        parts.append(f"{learned.known} were in use already")
    if learned.new_nodes:
        parts.append(f"{learned.new_nodes:,} nodes are new")
    kind = "fitted on from the model before" if learned.warm else "fitted anew"
    return "; ".join([*parts, f"{kind}, {learned.epochs} epochs in {learned.fit_seconds:.1f} s"]) + "."


def _row(name: str, before: Any, after: Any, difference: Difference | None = None) -> dict[str, Any]:
    change = None if before is None or after is None else after - before
    told = {"95 % interval": "", "": ""}
    if difference is not None:
        told = {"95 % interval": f"{difference.low:+.4f} to {difference.high:+.4f}", "": difference.verdict}
    return {"on the same nodes": name.replace("_", " "), "before": before, "after": after, "change": change, **told}


@within_its_memory
def explain(
    run: Annotated[Path, RUN],
    node: Annotated[str, typer.Argument(help="The id of a node.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A picture (.png, .svg, .pdf) or its numbers (.csv, .parquet).")
    ] = None,
    neighbours: Annotated[int, typer.Option("--neighbours", min=0, help="Try at most so many.")] = 20,
    features: Annotated[int, typer.Option("--features", min=0, help="Name at most so many.")] = 10,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Samples per prediction; default: as many as the fit took.")
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show which neighbours and which features move a node's uncertainty."""
    from graphsde.acting.explain import explain as measure
    from graphsde.acting.explain import position_of

    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    drawn = samples or opened.samples  # else an unsure node could have another class here
    found = measure(
        model,
        graph,
        node,
        neighbours=neighbours,
        features=features,
        samples=drawn,
        prediction=opened.prediction(drawn),
    )
    if out is not None:
        from graphsde.view.figures.nodes import ExplanationBars

        ExplanationBars.of(found).save(out)
    if json:
        told = found.as_dict()
        named = {"neighbours": _with_names(graph, told["neighbours"])}
        print_of_run(run, model, graph, _with_names(graph, [told])[0] | named)
        return
    if (called := graph.node_name(position_of(graph, found.id))) is not None:
        tell(f"Node {found.id} is {called}.")
    for sentence in found.sentences:
        tell(sentence)
    if found.neighbours:
        shown = len(found.neighbours)
        which = f"{shown} of {found.degree:,} neighbours" if shown < found.degree else "Neighbours"
        tell(f"{which}, one edge taken away at a time ({found.words.unit}; above 0: makes the node less sure):")
        print_table([{**_shown_node(graph, row["neighbour"], "neighbour"), **row} for row in found.neighbour_rows()])
        tell(found.words.note)
    if found.features:
        tell("", "Features that are not at their average:")
        print_table(found.feature_rows())
    tell(f"The effect of features was found {found.how}.")
    if out is not None:
        tell(f"The picture is in {out}")
