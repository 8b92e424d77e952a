"""Names to things: a resolver whose failure lists the choices."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.base.renames import current

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    name: str
    item: T
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "summary": self.summary, **self.facts}


class Registry(Generic[T]):
    """A named collection that others may add to; a former name (:mod:`~graphsde.base.renames`) finds its entry too.

    Args:
        kind: what the entries are, in the singular, for error messages ("model", "split").

    Example:
        >>> greetings = Registry("greeting")
        >>> @greetings.register("hello", summary="says hello")
        ... def hello():
        ...     return "hello"
        >>> greetings.get("hello")()
        'hello'
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[T]] = {}

    def register(self, name: str, *, summary: str, **facts: Any) -> Callable[[T], T]:
        def keep(item: T) -> T:
            self.add(name, item, summary=summary, **facts)
            return item

        return keep

    def add(self, name: str, item: T, *, summary: str, **facts: Any) -> None:
        if name in self._entries and self._entries[name].item is not item:
            raise BadUsage(f"a {self.kind} named '{name}' is registered already", fix="choose another name")
        if current(self.kind, name) != name:
            present = current(self.kind, name)
            raise BadUsage(f"the {self.kind} '{present}' was once named '{name}'", fix="choose another name")
        self._entries[name] = Entry(name, item, summary, facts)

    def get(self, name: str) -> T:
        return self.entry(name).item

    def entry(self, name: str) -> Entry[T]:
        try:
            return self._entries[current(self.kind, name)]
        except KeyError:
            raise unknown_name(self.kind, name, self.names()) from None

    def names(self) -> list[str]:
        return list(self._entries)

    def describe(self) -> list[dict[str, Any]]:
        return [entry.as_dict() for entry in self._entries.values()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and current(self.kind, name) in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def unknown_name(kind: str, name: str, choices: list[str]) -> UnknownName:
    close = difflib.get_close_matches(name, choices, n=1)
    hint = f"did you mean '{close[0]}'?" if close else "choose one of them"
    return UnknownName(
        f"there is no {kind} named '{name}'", found=name, expected="one of " + ", ".join(sorted(choices)), fix=hint
    )


class HasKind(Protocol):
    """A target, or anything that speaks of one: it says of which kind."""

    @property
    def target_kind(self) -> str: ...


_RULES: dict[tuple[str, str], Any] = {}


class Rules(Generic[T]):
    """What a folder does with each kind of target (classes, numbers, and whatever others add).

    All rules are kept in one table by what they are for and the kind; a folder registers its own and looks them up, and
    nobody asks a target what it is.

    Args:
        purpose: what the rules are for, in words that an error message can use.

    Example:
        >>> greetings = Rules("greeting a target")
        >>> @greetings.register("classification")
        ... def hello():
        ...     return "hello, classes"
        >>> greetings.of_kind("classification")()
        'hello, classes'
    """

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose

    def register(self, kind: str) -> Callable[[T], T]:
        def keep(rule: T) -> T:
            if _RULES.setdefault((self.purpose, kind), rule) is not rule:
                raise BadUsage(f"there is a rule for {self.purpose} of kind '{kind}' already")
            return rule

        return keep

    def of(self, subject: HasKind) -> T:
        return self.of_kind(subject.target_kind)

    def of_kind(self, kind: str) -> T:
        try:
            return cast(T, _RULES[self.purpose, kind])
        except KeyError:
            raise BadUsage(
                f"{self.purpose} is not there for {kind}",
                code="E-TARGET",
                found=kind,
                expected="one of " + ", ".join(self.kinds()),
            ) from None

    def kinds(self) -> list[str]:
        return [kind for purpose, kind in _RULES if purpose == self.purpose]
