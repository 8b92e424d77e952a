"""The best settings of a search as a file that people can read and ``bench`` can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from graphsde import storage
from graphsde.errors import BadInput, BadUsage
from graphsde.runs.cells import ModelSpec
from graphsde.runs.search.question import SearchRequest
from graphsde.runs.search.trials import Trial


def place_of(model: str, dataset: str) -> str:
    """What folders and files of a search are called; ``model`` as on the command line."""
    return f"{model}-{Path(dataset).name}"


def tuned(spec: ModelSpec, text: str, datasets: Sequence[str], configs: Path) -> ModelSpec:
    """The model with the settings that a search has left in ``configs`` for each of the graphs."""
    found, data = {}, {}
    for dataset in datasets:
        path = configs / f"{place_of(text, dataset)}.yaml"
        if not path.is_file():
            raise BadUsage(
                f"there are no settings of '{text}' for {Path(dataset).name}",
                place=str(configs),
                expected=path.name,
                fix=f"graphsde search --datasets {Path(dataset).name} --models {text} --configs {configs} --out FOLDER",
            )
        content = _read(path)
        found[dataset] = dict(content["settings"])
        if content.get("data"):
            data[dataset] = str(content["data"])
    return replace(spec, found=found, found_on=data, called=f"{text} (tuned)")


def write_best(path: Path, request: SearchRequest, best: Trial, trials: int) -> None:
    """Settings of the best trial, with what found them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "model": request.model.name,
        "dataset": Path(request.dataset).name,
        "data": best.data,
        "settings": best.settings,
        "found": {
            "trial": best.number,
            "cell": best.cell,
            f"val_{request.select}": best.value,
            "trials": trials,
            "sampler": request.sampler,
            "seed": request.seed,
        },
    }
    storage.write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a file that :func:`write_best` wrote."""
    return dict(_read(path)["settings"])


def _read(path: Path) -> dict[str, Any]:
    try:
        content = dict(yaml.safe_load(storage.read_text(path)))
        return {**content, "settings": dict(content["settings"])}
    except (yaml.YAMLError, TypeError, KeyError, ValueError) as error:
        raise BadInput("these are no settings", code="E-CORRUPT", place=str(path)) from error
