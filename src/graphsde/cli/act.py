"""Commands that act on a run's predictions: ``predict``, ``ask``, ``learn``, ``explain``."""

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
        str | None,
        typer.Option("--graph", help="Predict another graph with the same columns; default: the run's own graph."),
    ] = None,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the samples; default: the model's.")] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    device: Annotated[str | None, DEVICE] = None,
    memory: Annotated[str | None, MEMORY] = None,
) -> None:
    """Predict every node of the run's graph, or of another graph, with its uncertainty."""
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
        raise BadUsage("--read only applies to another graph given by --graph", fix="leave out --read")
    else:
        opened = opened_run(run)
        target, prediction = opened.graph, opened.prediction(samples, seed)
    out = run / (f"predictions{'' if graph is None else '-' + _file_name(target.name)}.csv") if out is None else out
    write_table(prediction_columns(prediction, target), out)
    tell(f"{prediction.num_items:,} predictions in {out}")


def _file_name(name: str) -> str:
    """A graph's name, made safe as part of a file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:50] or "other"


@within_its_memory
def ask(
    run: Annotated[Path, RUN],
    budget: Annotated[int, typer.Option("--budget", min=1, help="How many nodes to ask for.")] = 20,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help="Acquisition function (list acquisitions); default: entropy.",
            autocompletion=names_in("acquisitions"),
        ),
    ] = None,
    purpose: Annotated[
        str,
        typer.Option("--for", help="training, or calibration: drawn at random, to certify stricter limits."),
    ] = "training",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help=".csv or .parquet file to write, with an empty label column; default: questions.csv in the run.",
        ),
    ] = None,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of acquisitions that draw at random.")] = 0,
    plain: Annotated[
        bool, typer.Option("--plain", help="Rank by score alone; don't spread the nodes over the graph.")
    ] = False,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Choose the nodes whose labels would help most, with the reason for each."""
    from graphsde.acting.acquisition import ACQUISITIONS
    from graphsde.acting.ask import ask as choose
    from graphsde.io.table_export import require_table_name, write_table
    from graphsde.models.given import TrainedElsewhere
    from graphsde.prediction.columns import with_node_names

    if purpose not in ("training", "calibration"):
        raise BadUsage(f"unknown purpose '{purpose}' of --for", found=purpose, expected="training or calibration")
    if purpose == "calibration" and by not in (None, "random"):
        raise BadUsage(
            "calibration labels must be drawn at random, or the guarantee does not hold",
            found=f"--by {by}",
            fix="leave out --by and --plain",
        )
    by = by or "entropy"
    ACQUISITIONS.entry(by)  # reject a wrong name before any work is done
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
    then = f"then run: graphsde learn {run} {out}"
    if purpose == "calibration":
        then = f"then run: graphsde decide {run} --further-labels {out}"
    elif isinstance(model, TrainedElsewhere):
        then = f"then {model.taught_by}"
    tell(f"Wrote {len(questions)} questions to {out}. Fill in the label column, {then}")


def _unanswered(run: Path, name: str) -> Path:
    """The first of this file name and its numbered successors that holds no answers, so that none are overwritten."""
    from graphsde.runs.new_labels import answers_in

    number = 1
    while answers_in(path := run / (f"{name}.csv" if number == 1 else f"{name}-{number}.csv")):
        number += 1
    return path


def _with_names(graph: Graph, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows about nodes, with ``name`` after ``id`` if the graph has names."""
    from graphsde.acting.explain import position_of

    if graph.node_names is None:
        return list(rows)
    return [{"id": one["id"], "name": graph.node_name(position_of(graph, one["id"])), **one} for one in rows]


def _shown_node(graph: Graph, node: int | str, column: str) -> dict[str, str | None]:
    """The cells of an id: the id, and the node's name if the graph has names."""
    from graphsde.acting.explain import position_of

    named = {} if graph.node_names is None else {"name": graph.node_name(position_of(graph, node))}
    return {column: str(node), **named}


@on_its_device
def learn(
    run: Annotated[Path, RUN],
    labels: Annotated[Path, typer.Argument(help="A .csv or .parquet file with the columns id and label.")],
    graph: Annotated[
        str | None, typer.Option("--graph", help="The graph, if it has grown; known nodes are matched by id.")
    ] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Maximum number of epochs; default: the run's.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Train from new weights instead of the current ones.")] = False,
    test_labels: Annotated[
        bool,
        typer.Option(
            "--test-labels",
            help="Also train on labels that test nodes already have; they leave the test set. "
            "Default: only for files written by ask.",
        ),
    ] = False,
    device: Annotated[str | None, DEVICE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Add new labels, continue training from the current model, and show what changed. Earlier rounds are kept."""
    from graphsde.nn.callbacks import ProgressBar
    from graphsde.runs.learn import COMPARED, kept_in_words
    from graphsde.runs.learn import learn as take_in
    from graphsde.runs.new_labels import GivenLabels

    learned = take_in(
        run,
        GivenLabels.read(labels, test_labels=test_labels),
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
        tell(f"Nothing to do: all {learned.known} labels are already in use.")
        if learned.kept_for_test:
            tell(kept_in_words(learned.kept_for_test) + ".")
        tell("Last round:")
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
        tell("Nodes that changed most:")
        print_table(moved[:5])
    if learned.gain is not None and len(learned.gain.rounds) > 2:
        tell(learned.gain.sentence())
        print_table([{"round": one.round, "labels": one.training_nodes, **one.figures} for one in learned.gain.rounds])
    tell(f"The previous round is in {learned.history}. Next: graphsde ask {learned.run}")


def _headline(learned: Learned) -> str:
    parts = [f"Round {learned.round}: {learned.added} new labels, {learned.training_nodes:,} training nodes"]
    if learned.from_test:
        parts.append(f"{learned.from_test} of them moved from the test set to training")
    if learned.known:
        parts.append(f"{learned.known} were already in use")
    if learned.new_nodes:
        parts.append(f"{learned.new_nodes:,} nodes are new")
    kind = "continued from the previous model" if learned.warm else "trained from new weights"
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
        Path | None, typer.Option("--out", help="Write a figure (.png, .svg, .pdf) or its numbers (.csv, .parquet).")
    ] = None,
    neighbours: Annotated[int, typer.Option("--neighbours", min=0, help="Maximum number of neighbours to try.")] = 20,
    features: Annotated[int, typer.Option("--features", min=0, help="Maximum number of features to show.")] = 10,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Samples per prediction; default: as many as the fit used.")
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show which neighbours and features drive a node's uncertainty."""
    from graphsde.acting.explain import explain as measure
    from graphsde.acting.explain import position_of

    opened = opened_run(run)
    model, graph = opened.model, opened.graph
    drawn = samples or opened.samples  # otherwise the class of an uncertain node could differ here
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
        tell(
            f"{which}, removing one edge at a time ({found.words.unit}; above 0: the edge makes the node less certain):"
        )
        print_table([{**_shown_node(graph, row["neighbour"], "neighbour"), **row} for row in found.neighbour_rows()])
        tell(found.words.note)
    if found.features:
        tell("", "Features that differ from their average:")
        print_table(found.feature_rows())
    tell(f"Feature effects: {found.how}.")
    if out is not None:
        tell(f"Wrote {out}")
