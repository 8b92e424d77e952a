"""What a search is about, kept beside its trials: another question must not go on with the answers to this one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from graphsde import storage
from graphsde.errors import BadInput, BadUsage
from graphsde.models import MODELS
from graphsde.runs.cells import ModelSpec
from graphsde.runs.search.trials import Select
from graphsde.runs.source import open_graph
from graphsde.tasks.task import TASKS


@dataclass(frozen=True)
class SearchRequest:
    """What to search.

    Args:
        dataset, model: one pair; settings of ``model`` that are held fixed.
        trials: how many settings are tried, the model's own among them.
        seed: of the trials' training and of the sampler.
        sampler: ``random`` or ``tpe``.
        select: what is minimised or maximised, on validation nodes.
        cpu_minutes: of all trials together; no new one is begun beyond.
        engine, workers, address: as of a bench.
    """

    dataset: str
    model: ModelSpec
    trials: int = 8
    seed: int = 0
    sampler: Literal["random", "tpe"] = "random"
    select: Select = "nll"
    cpu_minutes: float = 20.0
    engine: str = "processes"
    workers: int | None = 1
    address: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def question(self) -> dict[str, Any]:
        """All that an earlier start of the same search must agree with; its length and engine may change."""
        return {
            "dataset": self.dataset,
            "data": open_graph(self.dataset).fingerprint,
            "model": self.model.name,
            "settings": self.model.settings,
            "seed": self.seed,
            "sampler": self.sampler,
            "select": self.select,
            "options": self.options,
            "versions": {"task": TASKS.get("tuning").version, "model": MODELS.get(self.model.name).version},
        }


def claim(folder: Path, request: SearchRequest) -> dict[str, Any]:
    """Write the question into a new folder, or refuse a folder that holds another one; call it under the lock."""
    path = folder / "search.json"
    now: dict[str, Any] = json.loads(json.dumps(request.question()))
    if not path.is_file():
        if (folder / "trial-000").is_dir():
            raise BadInput("nothing says what was searched here", code="E-CORRUPT", place=str(path), fix=_ELSEWHERE)
        storage.write_json(path, now)
        return now
    try:
        then = dict(json.loads(storage.read_text(path)))
    except (ValueError, TypeError) as error:
        raise BadInput("search.json is damaged", code="E-CORRUPT", place=str(path), fix=_ELSEWHERE) from error
    changed = [name for name in now if then.get(name) != now[name]]
    if changed:
        code = "E-DATA-CHANGED" if changed == ["data"] else "E-BENCH-CHANGED"
        told = "; ".join(f"{name}: {then.get(name)} then, {now[name]} now" for name in changed)
        raise BadUsage(f"{folder} holds another search ({told})", code=code, fix=_ELSEWHERE)
    return now


_ELSEWHERE = "choose another --out"
