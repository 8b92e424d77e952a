"""Settings as validated, immutable objects with readable errors."""

from __future__ import annotations

import inspect
import re
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphsde.base.arguments import expected_in_words
from graphsde.base.errors import BadUsage
from graphsde.base.renames import as_currently
from graphsde.base.suggestions import called_here, what_was_meant


class Settings(BaseModel):
    """Base of all settings: unknown names are refused, values are checked, nothing changes after construction."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    spelt_as: ClassVar[Any] = dict[str, Any]
    """What may be given instead of such settings when they are nested in others."""

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Descriptions of the settings, from the ``Args`` of the class and its base classes."""
        found: dict[str, str] = {}
        for one in reversed(cls.__mro__):
            _, _, section = inspect.cleandoc(one.__dict__.get("__doc__") or "").partition("\nArgs:\n")
            told = re.split(r"^\S", section, maxsplit=1, flags=re.MULTILINE)[0]
            for names, words in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", told, flags=re.MULTILINE):
                found |= dict.fromkeys(names.split(", "), " ".join(words.split()))
        return {name: found[name] for name in cls.model_fields if name in found}

    @classmethod
    def parse(cls, values: dict[str, Any], what: str) -> Self:
        """Settings from plain values, former names included; an error has the first mistake and the closest name or
        the allowed range."""
        try:
            return cls.model_validate(as_currently(values))
        except ValidationError as error:
            raise _in_words(cls, error, what) from None


class TrainSettings(Settings):
    """How a module is trained.

    Args:
        epochs: maximum number of passes over the training nodes.
        lr: the learning rate.
        optimizer: ``adam`` or ``adamax``.
        patience: epochs without a better one before training stops.
        evaluate_every: epochs between two validations.
        early_stop: if false, all epochs are run and the last one is kept; no validation nodes needed.
        select: which epoch is kept and which member wins a race: the one with the lowest validation NLL (``nll``), or
            the one with the highest validation accuracy (``accuracy``), ties broken by NLL.
    """

    epochs: int = Field(200, ge=1, le=1_000_000)
    lr: float = Field(0.01, gt=0, le=100)
    optimizer: Literal["adam", "adamax"] = "adam"
    patience: int = Field(50, ge=1)
    evaluate_every: int = Field(1, ge=1)
    early_stop: bool = True
    select: Literal["nll", "accuracy"] = "nll"


def _in_words(cls: type[Settings], error: ValidationError, what: str) -> BadUsage:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = list(cls.model_fields)
        of_members = "base_settings" in known and name in TrainSettings.model_fields
        return BadUsage(
            f"{what} has no setting '{name}'",
            code="E-SETTING",
            # its name here is more helpful than a list of all
            expected=None if called_here(name, known) else "one of " + ", ".join(sorted(known)),
            fix=f"the members have it: base_settings.{name}" if of_members else what_was_meant(name, known),
        )
    expected = expected_in_words(first["msg"].removeprefix("Value error, "))  # from a validator of ours
    return BadUsage(
        f"setting '{name}' of {what} can't be {first['input']!r}",
        code="E-SETTING",
        found=first["input"],
        expected=expected[0].lower() + expected[1:],
    )
