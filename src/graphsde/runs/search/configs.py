"""The best settings of a search as a file that people can read and ``bench`` can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from graphsde import storage
from graphsde.errors import BadInput
from graphsde.runs.search.study import SearchRequest, Trial


def write_best(path: Path, request: SearchRequest, best: Trial, trials: int) -> None:
    """Settings of the best trial, with what found them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "model": request.model.name,
        "dataset": Path(request.dataset).name,
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
    try:
        settings = yaml.safe_load(storage.read_text(path))["settings"]
        return dict(settings)
    except (yaml.YAMLError, TypeError, KeyError, ValueError) as error:
        raise BadInput("these are no settings", code="E-CORRUPT", place=str(path)) from error
