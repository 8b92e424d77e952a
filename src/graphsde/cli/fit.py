"""Commands that fit: ``fit``, and ``demo``, which needs no data."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.base.lock import refuse_if_held
from graphsde.cli.options import (
    ADDRESS,
    DEVICE,
    GRAPH,
    JSON,
    MEMORY,
    MODEL,
    READ,
    SAMPLES,
    key_values,
    names_in,
    on_its_device,
    within_its_memory,
)
from graphsde.cli.output import cell, print_json, print_table, say, tell

if TYPE_CHECKING:
    from graphsde.runs.folder import RunFolder

DEFAULT_MODEL = "lgnsde"
DEMO_GRAPH = "digits"
FITTED_MODEL = typer.Option(
    "--model",
    help=f"See: graphsde list models. Without --config the default is {DEFAULT_MODEL}.",
    autocompletion=names_in("models"),
)
NUMBERS = ("rmse", "mae", "crps", "coverage90", "calibration_error")


@within_its_memory
@on_its_device
def fit(
    graph: Annotated[str, GRAPH],
    out: Annotated[Path, typer.Option("--out", help="The folder to write the run to.")],
    model: Annotated[str | None, FITTED_MODEL] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="Of lgnsde: auto, universal, closed-world, open-world, paper or released."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the model and, for random splits, of the split.")] = 0,
    split: Annotated[
        str | None, typer.Option("--split", help="See: graphsde list splits.", autocompletion=names_in("splits"))
    ] = None,
    split_option: Annotated[
        list[str], typer.Option("--split-set", metavar="KEY=VALUE", help="An option of the split, e.g. leave=last.")
    ] = [],  # noqa: B006
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting of the model, e.g. hidden=64.")
    ] = [],  # noqa: B006
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="Model and settings from a file of 'graphsde search --configs'; --set overrides."
        ),
    ] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
    samples: Annotated[int, SAMPLES] = 64,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another run in the same folder.")] = False,
    race: Annotated[
        bool | None,
        typer.Option(
            "--race/--no-race", help="Choose settings by a race on validation nodes, or use the default rule."
        ),
    ] = None,
    no_early_stop: Annotated[
        bool, typer.Option("--no-early-stop", help="Run all epochs; no validation nodes needed.")
    ] = False,
    no_controls: Annotated[
        bool,
        typer.Option("--no-controls", help="Skip the baselines (majority class, logistic regression, …)."),
    ] = False,
    way: Annotated[
        str | None,
        typer.Option("--way", help="Of lgnsde: full, partitioned or batched; default: whatever fits into memory."),
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="ray: workers train the parts of one model, or prepare its batches.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Number of workers, at most one per part; default: one per processor."),
    ] = None,
    address: Annotated[str | None, ADDRESS] = None,
    device: Annotated[str | None, DEVICE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Fit a model on a graph and save everything in a folder. Run it again to resume or to see the result."""
    refuse_if_held(out)  # before loading or reading anything
    from graphsde.datasets.source import GraphSource
    from graphsde.nn.callbacks import ProgressBar
    from graphsde.runs.fit import FitRequest, fit_run
    from graphsde.runs.folder import RunFolder, without_nan

    values: dict[str, Any] = key_values(settings, "--set")
    if preset is not None:
        values["preset"] = preset
    if config is not None:
        from graphsde.bench.search import read_recipe
        from graphsde.models.parameters import merge_settings

        model, found = read_recipe(config, model)
        values = merge_settings(found, values)
    model = model or DEFAULT_MODEL
    if race is not None:
        values["race"] = race
    if way is not None:
        values["way"] = way
    if no_early_stop:
        values |= _all_epochs(model, values)
    launch = _launch(engine, workers, address, values)
    source = GraphSource.typed(
        graph,
        options=key_values(read, "--read"),
        split=split,
        split_options=key_values(split_option, "--split-set"),
        seed=seed,
    )
    with launch:
        outcome = fit_run(
            FitRequest(source, model, values, seed, samples),
            RunFolder(out),
            overwrite=overwrite,
            callbacks=[ProgressBar(f"fitting {model}")],
            say=say,
            with_controls=not no_controls,
        )
    metrics, board = without_nan(outcome.metrics), outcome.controls
    if json:
        kept = {} if board is None else {"controls": board.model_dump(), "standing": board.sentence}
        done = {"already_done": outcome.already_done, "resumed": outcome.resumed}
        print_json({"run": str(out), **done, **metrics, **kept})
        return
    for name in ("accuracy", *NUMBERS, "nll", "ece", "aurc", "misclassification_auroc"):
        if name in metrics:
            tell(f"{name.replace('_', ' '):>26}  {cell(metrics[name])}")
    if "n_test" in metrics:
        tell(f"{'test nodes':>26}  {cell(metrics['n_test'])}")
    tell(f"{'best epoch':>26}  {cell(metrics.get('best_epoch'))}")
    if board is not None:
        tell(
            "",
            "Compared with baselines, ordered by validation NLL; test metrics with 95 % intervals over draws of nodes:",
        )
        print_table(board.table())
        tell(board.sentence, *board.notes())
    tell("", f"The run is in {out}. Next: graphsde report {out}")


def _launch(
    engine: str | None, workers: int | None, address: str | None, values: dict[str, Any]
) -> AbstractContextManager[None]:
    """What trains the parts of a fit, or makes the rows of its batches; without an engine, this process."""
    if engine is None:
        if workers is not None or address is not None:
            option = "--workers" if address is None else "--address"
            raise BadUsage(f"{option} needs several workers", place=option, fix="add --engine ray")
        return nullcontext()
    if engine != "ray":
        raise BadUsage(
            f"'{engine}' can't train a single model", place="--engine", expected="ray", fix="use --engine ray"
        )
    way = values.setdefault("way", "partitioned")
    if way not in ("partitioned", "batched"):
        raise BadUsage(
            f"several workers train the parts of a graph or prepare its batches, not way={way}",
            place="--engine",
            fix="use --way partitioned or batched, or leave --engine out",
        )
    from graphsde.models.partitioned import launched_by
    from graphsde.runs.workers import RayLaunch, rows_by_ray

    if way == "batched":
        return rows_by_ray(workers, address, say)
    return launched_by(RayLaunch(workers, address, say))


def _all_epochs(model: str, values: dict[str, Any]) -> dict[str, Any]:
    from graphsde.models import MODELS

    settings = MODELS.get(model)(**values).training_settings(early_stop=False)
    if settings is None:
        raise BadUsage(f"{model} is not trained in epochs", place="--no-early-stop", fix="leave --no-early-stop out")
    return settings


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder to write the run to.")] = Path("runs/demo"),
    model: Annotated[str, MODEL] = DEFAULT_MODEL,
) -> None:
    """Train on the embedded graph of handwritten digits, show the most uncertain nodes, write a report."""
    import numpy as np

    from graphsde.datasets.source import GraphSource
    from graphsde.nn.callbacks import ProgressBar
    from graphsde.prediction import ClassPrediction, require
    from graphsde.runs.fit import FitRequest, fit_run
    from graphsde.runs.folder import RunFolder
    from graphsde.view.report.run import report_on_run

    folder = RunFolder(out)
    if folder.started and not _earlier_demo(folder):
        raise BadUsage(f"{out} holds another run", code="E-RUN-EXISTS", fix="choose another --out")
    outcome = fit_run(
        FitRequest(GraphSource(DEMO_GRAPH), model),
        folder,
        overwrite=True,
        callbacks=[ProgressBar(f"fitting {model}")],
        say=say,
    )
    graph, metrics = outcome.graph, outcome.metrics
    prediction = require(outcome.prediction, ClassPrediction, "the demo")
    assert graph.test_mask is not None and graph.labels is not None
    path = report_on_run(
        folder, None
    )  # before printing, so that the report exists even if only the first lines are read
    test = np.flatnonzero(graph.test_mask)
    order = test[np.argsort(-prediction.total[test], kind="stable")][:10]
    tell("", "The ten test images the model is least certain about:")
    print_table(
        [
            {
                "image": str(prediction.ids[node]),
                "predicted": prediction.label[node],
                "truth": graph.class_names[graph.labels[node]],
                "confidence": float(prediction.confidence[node]),
                "entropy": float(prediction.total[node]),
                "right": bool(prediction.index[node] == graph.labels[node]),
            }
            for node in order
        ]
    )
    surest = test[np.argsort(prediction.total[test], kind="stable")][: int(0.8 * test.size)]
    kept = float((prediction.index[surest] == graph.labels[surest]).mean())
    tell(
        f"On {metrics['n_test']:,} test images, {metrics['accuracy']:.1%} are right; "
        f"of the 80 % it is most certain about, {kept:.1%}."
    )
    tell(
        "", f"The report: {path}", "Compare the entropy of right and wrong predictions, then look at the images above."
    )
    tell("Next, with your own files: graphsde check FOLDER, graphsde fit FOLDER --out runs/first")


def _earlier_demo(folder: RunFolder) -> bool:
    """Whether this command made the run and nothing changed it since; an unfinished one is resumed."""
    from graphsde.runs.state import present_round

    if not folder.finished:
        asked = folder.work.request()
        return asked is not None and asked.get("config", {}).get("graph", {}).get("graph") == DEMO_GRAPH
    try:
        command, model = folder.read_environment()["command"], folder.load_model()
    except GraphsdeError:
        return False
    own = None if model.calibrator is None else model.calibrator.name
    as_fitted = own == getattr(model.settings, "calibrator", None)
    return "demo" in command[1:2] and as_fitted and not present_round(folder.path)
