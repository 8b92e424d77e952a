"""What all contracts share: a guarantee, lists of checks, and one call that runs such a list."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from graphsde.base.errors import GraphsdeError

CheckT = TypeVar("CheckT", bound=Callable[..., None])


class Broken(AssertionError):
    """A broken guarantee."""


def contract(*lists: list[CheckT]) -> Callable[[CheckT], CheckT]:
    """Decorator: makes a check part of these lists."""

    def keep(check: CheckT) -> CheckT:
        for checks in lists:
            checks.append(check)
        return check

    return keep


def expect(kept: object, words: str) -> None:
    if not kept:
        raise Broken(words)


def refuses(kind: type[GraphsdeError], action: Callable[[], object], words: str) -> GraphsdeError:
    try:
        action()
    except kind as error:
        return error
    raise Broken(f"{words}: {kind.__name__} was expected")


def run_checks(checks: Iterable[Callable[..., None]], arguments: Callable[[], Iterable[Any]]) -> int:
    """Run checks one after another; the error names the first that fails, for whatever reason.

    Args:
        checks: of one contract.
        arguments: makes the arguments of each of them.

    Returns:
        Number of checks passed.

    Raises:
        Broken: an ``AssertionError``.
    """
    kept = 0
    for check in checks:
        try:
            check(*arguments())
        except Exception as error:
            words = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
            raise Broken(f"{check.__name__}: {words}") from error
        kept += 1
    return kept


@contextmanager
def untouched_randomness() -> Iterator[None]:
    """The global random generators, which nothing of ours may use, must be unchanged at the end."""
    before = _global_randomness()
    yield
    same = all(np.array_equal(then, now) for then, now in zip(before, _global_randomness(), strict=True))
    expect(same, "the shared random generators are untouched")


def _global_randomness() -> list[np.ndarray]:
    numpy_state = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002 (only read)  # type: ignore[index]
    return [torch.get_rng_state().numpy().copy(), np.array(numpy_state), np.array(random.getstate()[1])]
