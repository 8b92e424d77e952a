"""Parts of an LGNSDE by attribute: ``drift.GAT(heads=4)``, ``prior.OU(theta=1.0)``, ``solver.SRA1(steps=10)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphsde.dynamics.diffusion import DIFFUSIONS
from graphsde.dynamics.drift import DRIFTS
from graphsde.dynamics.prior import PRIORS
from graphsde.dynamics.solvers import SOLVERS
from graphsde.models.lgnsde.settings import Part
from graphsde.registry import Registry, unknown_name


class Namespace:
    """The entries of a registry as attributes; calling one gives the setting that names it, with its options.

    Upper and lower case and underscores don't matter: ``drift.SecondOrder``, ``drift.second_order``.

    Example:
        >>> drift.GAT(heads=2)
        {'name': 'gat', 'options': {'heads': 2}}
    """

    def __init__(self, registry: Registry[Any]) -> None:
        self._registry = registry

    def __getattr__(self, attribute: str) -> Callable[..., dict[str, Any]]:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        for name in self._registry:
            if _letters(name) == _letters(attribute):
                return lambda **options: {"name": name, "options": options}
        raise unknown_name(self._registry.kind, attribute.lower(), self._registry.names())

    def __dir__(self) -> list[str]:
        return [name.replace("-", "_") for name in self._registry]


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _spelt(part: Any) -> Any:
    if isinstance(part, str):
        return {"name": part}
    return part.model_dump() if isinstance(part, Part) else part


def plain_parts(settings: dict[str, Any]) -> dict[str, Any]:
    """Short forms spelt out: ``drift="gcn"`` is ``drift={"name": "gcn"}``, and a solver's ``steps`` are the model's."""
    spelt: dict[str, Any] = {name: _spelt(value) if name in PART_NAMES else value for name, value in settings.items()}
    given = spelt.get("solver")
    if isinstance(given, dict):
        own = {key: value for key, value in given.items() if key != "steps"}
        options = dict(own.get("options", {}))
        steps = options.pop("steps", given.get("steps"))
        if "options" in own:
            own["options"] = options
        if steps is not None:
            spelt = {"steps": steps, **spelt}
        if own:
            spelt["solver"] = own
        else:
            del spelt["solver"]
    return spelt


PART_NAMES = ("drift", "prior", "diffusion", "solver")
drift, prior = Namespace(DRIFTS), Namespace(PRIORS)
diffusion, solver = Namespace(DIFFUSIONS), Namespace(SOLVERS)
