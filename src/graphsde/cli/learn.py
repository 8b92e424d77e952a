from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsde.cli.options import JSON, READ, RUN, key_values
from graphsde.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from graphsde.runs.learn import Learned

SHOWN = ("accuracy", "rmse", "mae", "crps", "coverage90", "nll", "ece", "aurc", "misclassification_auroc")


def learn(
    run: Annotated[Path, RUN],
    labels: Annotated[Path, typer.Argument(help="A .csv or .parquet file with the columns id and label.")],
    graph: Annotated[
        str | None, typer.Option("--graph", help="The graph where it has grown; known nodes are matched by id.")
    ] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="At most so many; default: the run's.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin with new weights, not with the present ones.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Take in new labels, fit on from the present model, and show what changed. Earlier rounds are kept."""
    from graphsde.nn.callbacks import ProgressBar
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
        print_json({**learned.as_dict(), "history": str(learned.history)})
        return
    _print(learned)


def _print(learned: Learned) -> None:
    if learned.already_known:
        typer.echo(f"All {learned.known} labels are in use already: nothing to do. The last round:")
    typer.echo(_headline(learned))
    change = learned.change
    rows = [_row(name, learned.before[name], learned.after[name]) for name in SHOWN if name in learned.before]
    rows.append(_row(*change.uncertainty))
    if change.epistemic_before is not None and change.epistemic_after is not None:
        rows.append(_row("mean epistemic", change.epistemic_before, change.epistemic_after))
    print_table(rows)
    typer.echo(change.sentence())
    moved = change.moved_rows()
    if moved:
        typer.echo("Those that moved most:")
        print_table(moved[:5])
    typer.echo(f"The round before is in {learned.history}. Next: graphsde ask {learned.run}")


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


def _row(name: str, before: Any, after: Any) -> dict[str, Any]:
    change = None if before is None or after is None else after - before
    return {"on the same nodes": name.replace("_", " "), "before": before, "after": after, "change": change}
