"""Registries: names resolve to parts, errors list the choices, and one decorator registers every kind of part."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.base.plugins import load_installed
from graphsde.base.renames import current
from graphsde.base.suggestions import closest, what_was_meant

T = TypeVar("T")
AnyClass = TypeVar("AnyClass", bound=type)
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry(Generic[T]):
    name: str
    item: T
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "summary": self.summary, **self.facts}


class Registry(Generic[T]):
    """A named collection that plugins can add to; former names (:mod:`~graphsde.base.renames`) still resolve.

    Installed plugins are loaded when a name is missing or all names are listed.

    Args:
        kind: what the entries are, in the singular, for error messages ("model", "split").
        base: the class that all entries derive from, if they are classes; :data:`register` dispatches on it.
        facts: attributes of an entry besides its summary, read from its class.

    Example:
        >>> greetings = Registry("greeting")
        >>> @greetings.register("hello", summary="says hello")
        ... def hello():
        ...     return "hello"
        >>> greetings.get("hello")()
        'hello'
    """

    def __init__(
        self, kind: str, *, base: type | None = None, facts: Callable[[Any], dict[str, Any]] | None = None
    ) -> None:
        self.kind, self.base, self._facts = kind, base, facts
        self._entries: dict[str, Entry[T]] = {}
        if base is not None:
            _OF_CLASSES.append(self)

    def register(self, name: str, *, summary: str, **facts: Any) -> Callable[[T], T]:
        def keep(item: T) -> T:
            self.add(name, item, summary=summary, **facts)
            return item

        return keep

    def add(self, name: str, item: T, *, summary: str, **facts: Any) -> None:
        if name in self._entries and self._entries[name].item is not item:
            raise BadUsage(f"a {self.kind} named '{name}' is already registered", fix="choose another name")
        if current(self.kind, name) != name:
            present = current(self.kind, name)
            raise BadUsage(f"the {self.kind} '{present}' was once named '{name}'", fix="choose another name")
        self._entries[name] = Entry(name, item, summary, facts)

    def add_class(self, cls: AnyClass) -> AnyClass:
        """Class decorator: registers a class under its own ``name`` and ``summary``."""
        item: Any = cls
        for needed in ("name", "summary"):
            if not isinstance(getattr(item, needed, None), str):
                raise BadUsage(
                    f"the {self.kind} {cls.__name__} has no {needed}", expected=f'a line {needed} = "…" in the class'
                )
        try:
            facts = {} if self._facts is None else self._facts(item)
        except AttributeError as error:
            raise BadUsage(f"the {self.kind} '{item.name}' can't be registered: {error}", fix="set it") from None
        self.add(item.name, item, summary=item.summary, **facts)
        return cls

    def get(self, name: str) -> T:
        return self.entry(name).item

    def entry(self, name: str) -> Entry[T]:
        if name not in self:
            raise unknown_name(self.kind, name, self.names())
        return self._entries[current(self.kind, name)]

    def names(self) -> list[str]:
        load_installed()
        return list(self._entries)

    def describe(self) -> list[dict[str, Any]]:
        load_installed()
        return [entry.as_dict() for entry in self._entries.values()]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        present = current(self.kind, name)
        if present not in self._entries:
            load_installed()
        return present in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())


_OF_CLASSES: list[Registry[Any]] = []
# by name, since the registries live in folders that import this one
_OF_FUNCTIONS = {
    "score": ("graphsde.uncertainty.scores", "SCORES"),
    "conformal score": ("graphsde.uncertainty.conformal", "CONFORMAL_SCORES"),
    "acquisition": ("graphsde.acting.acquisition", "ACQUISITIONS"),
    "metric": ("graphsde.metrics", "METRICS"),
    "split": ("graphsde.datasets.splits", "SPLITS"),
    "shift": ("graphsde.datasets.shifts", "SHIFTS"),
    "dataset": ("graphsde.datasets.benchmarks", "DATASETS"),
}


class Register:
    """Register your own part by name, for Python, the command line and benches.

    The base class of a class decides its kind: model, drift, diffusion, prior, solver, calibrator, task or engine. A
    function needs its kind and a name; its summary is the first line of its docstring unless given.

    Example:
        >>> import graphsde as gs
        >>> @gs.register.score("coldness", needs=("probs",))
        ... def coldness(prediction):
        ...     \"\"\"one minus the probability of the first class\"\"\"
        ...     return 1 - prediction.mean[:, 0]
        >>> gs.register
        <register: @gs.register for a class, @gs.register.score("name") and the like for a function>
    """

    def __call__(self, cls: AnyClass) -> AnyClass:
        """Class decorator."""
        for registry in _OF_CLASSES:
            if isinstance(cls, type) and registry.base is not None and issubclass(cls, registry.base):
                return registry.add_class(cls)
        kinds = ", ".join(name.replace(" ", "_") for name in _OF_FUNCTIONS)
        raise BadUsage(
            f"{getattr(cls, '__name__', cls)!r} can't be registered: its base class is not known",
            expected="a subclass of Model, Drift, Diffusion, Prior, Solver, Calibrator, Task or Engine",
            fix=f'for a function say what it is: @gs.register.score("name"), or one of {kinds}',
        )

    def score(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``score(prediction, …) -> [N]``, higher = more uncertain; facts: ``needs=("probs",)``, what it reads."""
        return self._function("score", name, summary, facts)

    def conformal_score(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``score(case, **options) -> [N, C]``, higher = less conforming."""
        return self._function("conformal score", name, summary, facts)

    def acquisition(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``choose(candidates, budget) -> positions``, best first."""
        return self._function("acquisition", name, summary, facts)

    def metric(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``metric(…) -> float``; the facts ``takes`` and ``better`` say what it reads and which way is better."""
        return self._function("metric", name, summary, facts)

    def split(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``maker(graph, *, seed=0, **options) -> Split``."""
        return self._function("split", name, summary, facts)

    def shift(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``maker(graph, *, seed=0, **options) -> Graph``."""
        return self._function("shift", name, summary, facts)

    def dataset(self, name: str, *, summary: str = "", **facts: Any) -> Callable[[AnyFunction], AnyFunction]:
        """``loader(*, size, root, download, progress) -> Graph``."""
        return self._function("dataset", name, summary, facts)

    def _function(
        self, kind: str, name: str, summary: str, facts: dict[str, Any]
    ) -> Callable[[AnyFunction], AnyFunction]:
        module, attribute = _OF_FUNCTIONS[kind]
        registry: Registry[Any] = getattr(importlib.import_module(module), attribute)

        def keep(function: AnyFunction) -> AnyFunction:
            first_line = (function.__doc__ or "").strip().partition("\n")[0]
            if not (summary or first_line):
                raise BadUsage(f"the {kind} '{name}' has no summary", fix="give it a docstring, or summary='…'")
            registry.add(name, function, summary=summary or first_line, **facts)
            return function

        return keep

    def __repr__(self) -> str:
        return '<register: @gs.register for a class, @gs.register.score("name") and the like for a function>'


register = Register()
"""``@gs.register`` for a class, which goes where its base class says; ``@gs.register.score("name")`` and the like for a
function: acquisition, conformal score, dataset, metric, score, shift or split. From then on Python, the command line
and benches know the part by its name."""


def unknown_name(kind: str, name: str, choices: list[str]) -> UnknownName:
    close = closest(name, choices)
    hint = f"did you mean '{close}'?" if close else "choose one of them"
    return UnknownName(
        f"unknown {kind} '{name}'", found=name, expected="one of " + ", ".join(sorted(choices)), fix=hint
    )


def refuse_unknown_options(what: str, known: list[str], given: Iterable[str]) -> None:
    """Refuse unknown options; ``what`` names their owner, with its kind."""
    if unknown := sorted(set(given) - set(known)):
        raise BadUsage(
            f"the {what} has no option {', '.join(unknown)}",
            found=", ".join(unknown),
            expected="one of " + ", ".join(known) if known else "no options",
            fix=what_was_meant(unknown[0], known) if known else "leave it out",
        )


class HasKind(Protocol):
    """A target, or anything about one: it has a kind."""

    @property
    def target_kind(self) -> str: ...


_RULES: dict[tuple[str, str], Any] = {}


class Rules(Generic[T]):
    """What to do with each kind of target (classes, numbers, and those that plugins add).

    All rules are kept in one table by purpose and kind; each folder registers and looks up its own, so that
    no code branches on the kind of a target.

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
                raise BadUsage(f"a rule for {self.purpose} of kind '{kind}' is already registered")
            return rule

        return keep

    def of(self, subject: HasKind) -> T:
        return self.of_kind(subject.target_kind)

    def of_kind(self, kind: str) -> T:
        try:
            return cast(T, _RULES[self.purpose, kind])
        except KeyError:
            raise BadUsage(
                f"{self.purpose} is not available for {kind}",
                code="E-TARGET",
                found=kind,
                expected="one of " + ", ".join(self.kinds()),
            ) from None

    def kinds(self) -> list[str]:
        return [kind for purpose, kind in _RULES if purpose == self.purpose]
