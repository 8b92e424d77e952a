"""What a model is before it has seen a graph."""

from __future__ import annotations

from pathlib import Path

from graphsde.errors import BadUsage, NotFitted
from graphsde.models.base import MODELS
from graphsde.models.contract.case import ModelCase, contract, global_randomness, promise, refuses, unchanged


@contract
def has_name_summary_paper_and_year(case: ModelCase, folder: Path) -> None:
    model = case.make()
    promise(model.name and model.summary and model.paper and 1700 < model.year < 2100, "name, summary, paper, year")


@contract
def is_registered_under_its_name(case: ModelCase, folder: Path) -> None:
    model = case.make()
    promise(model.name in MODELS and MODELS.get(model.name) is type(model), "register it with @register_model")


@contract
def has_a_docstring_that_names_the_paper(case: ModelCase, folder: Path) -> None:
    promise("Paper:" in (type(case.make()).__doc__ or ""), "the docstring has a line 'Paper: …'")


@contract
def settings_are_plain_values(case: ModelCase, folder: Path) -> None:
    model = case.make()
    again = model.Settings.model_validate(model.settings.model_dump(mode="json"))
    promise(again == model.settings, "settings survive a round trip through JSON")


@contract
def refuses_an_unknown_setting(case: ModelCase, folder: Path) -> None:
    refuses(BadUsage, lambda: type(case.make())(no_such_setting=1), "an unknown setting")


@contract
def refuses_a_bad_seed(case: ModelCase, folder: Path) -> None:
    for seed in (-1, 2**64, 0.5, "x"):
        refuses(BadUsage, lambda seed=seed: case.make(seed=seed), f"seed {seed!r}")  # type: ignore[misc]


@contract
def repr_names_the_class(case: ModelCase, folder: Path) -> None:
    model = case.make(seed=3)
    promise(type(model).__name__ in repr(model) and "seed=3" in repr(model), "repr shows class and changed settings")


@contract
def constructor_does_not_touch_global_randomness(case: ModelCase, folder: Path) -> None:
    before = global_randomness()
    case.make()
    promise(unchanged(before), "the shared random generators are untouched")


@contract
def predict_before_fit_is_refused(case: ModelCase, folder: Path) -> None:
    refuses(NotFitted, lambda: case.make().predict(case.graph), "predict before fit")


@contract
def save_before_fit_is_refused(case: ModelCase, folder: Path) -> None:
    refuses(NotFitted, lambda: case.make().save(folder), "save before fit")
    promise(not any(folder.iterdir()), "a refused save leaves no file")


@contract
def estimate_is_positive_and_does_not_fit(case: ModelCase, folder: Path) -> None:
    model = case.make()
    estimate = model.estimate(case.graph)
    promise(estimate.bytes > 0 and estimate.seconds >= 0, "estimate of memory and time")
    refuses(NotFitted, lambda: model.predict(case.graph), "estimate must not fit")
