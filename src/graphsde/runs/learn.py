"""A run learns new labels: they are checked, training continues, and every earlier round is kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.acting.change import Change, compare
from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.datasets.source import KEPT_ROLES, GraphSource
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import judged_nodes
from graphsde.metrics.intervals import Difference, paired_intervals
from graphsde.models import MODELS, Model
from graphsde.models.given import TrainedElsewhere
from graphsde.nn.callbacks import Callback
from graphsde.prediction import Prediction
from graphsde.runs.folder import RunContent, RunFolder, figures_of
from graphsde.runs.kept_graph import FILE as KEPT_GRAPH
from graphsde.runs.kept_graph import source_files
from graphsde.runs.label_book import LabelBook, require_growth, roles_in
from graphsde.runs.new_labels import CHECKS, GivenLabels, NewLabels
from graphsde.runs.state import NewState, past_rounds, present_round
from graphsde.runs.work import LEARNING, Work

SUMMARY = "learned.json"
FEW_TEST_NODES = 59
"""The fewest calibration nodes that can certify 5 % at δ = 5 %, all of them accepted and right."""
MISFITS = ("E-MODEL-SHAPE", "E-MODEL-TENSORS")
COMPARED = ("accuracy", "rmse", "mae", "crps", "coverage90", "nll", "ece", "aurc", "misclassification_auroc")
"""Figures that rounds are compared by; a kind of target has some of them."""


def _in_words(differences: Mapping[str, Difference]) -> str:
    """ "nll and aurc got better; the rest is within noise"."""
    said = {
        verdict: [name.replace("_", " ") for name, one in differences.items() if one.verdict == verdict]
        for verdict in ("better", "worse", "changed")
    }
    parts = [
        f"{' and '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)} "
        f"{'changed' if verdict == 'changed' else f'got {verdict}'}"
        for verdict, names in said.items()
        if names
    ]
    if not parts:
        return "every change is within noise"
    left = len(differences) - sum(len(names) for names in said.values())
    return "; ".join([*parts, *(["the rest is within noise"] if left else [])])


@dataclass(frozen=True)
class Round:
    """A round as it looks today: its figures on the test nodes that remain.

    Args:
        round: 0 for the first fit.
        training_nodes: how many it had.
        figures: on the test nodes of today, by name.
    """

    round: int
    training_nodes: int
    figures: dict[str, float | None]


@dataclass(frozen=True)
class Gain:
    """What all labels since the first fit have gained, on the test nodes that remain today.

    Args:
        labels: how many were learned.
        test_nodes: how many are judged.
        rounds: all that can still be read, the present one last.
        differences: figures of the present round less those of the first, with intervals.
    """

    labels: int
    test_nodes: int
    rounds: tuple[Round, ...]
    differences: dict[str, Difference]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Gain:
        rounds = tuple(Round(**one) for one in values["rounds"])
        return cls(**{**values, "rounds": rounds, "differences": _differences(values["differences"])})

    def sentence(self) -> str:
        """In one line."""
        over = f"{len(self.rounds) - 1} round{'' if len(self.rounds) == 2 else 's'}"
        return (
            f"Since the first fit, {self.labels:,} label{'' if self.labels == 1 else 's'} in {over}: "
            f"{_in_words(self.differences)} (the same {self.test_nodes:,} test nodes)."
        )


def _differences(values: Mapping[str, Any]) -> dict[str, Difference]:
    return {name: Difference(**one) for name, one in values.items()}


@dataclass(frozen=True)
class Learned:
    """What a round of learning did.

    Args:
        run: the folder.
        round: 1 for the first round of learning.
        added: new training labels.
        from_test: how many of them were test nodes before.
        known: given labels that were already in use.
        kept_for_test: how many of these are labels of test nodes, which stay test nodes.
        new_nodes: nodes that the graph did not have before.
        training_nodes: how many there are now.
        warm: whether training continued from the previous model; ``False`` if it had to start over.
        epochs: of the fit.
        fit_seconds: what it took.
        change: the prediction before and after, on nodes outside training.
        before, after: test metrics of both models on the same graph and the same, remaining test nodes.
        already_known: nothing was new, so nothing was done; the other values are those of the last round.
        differences: ``after`` less ``before``, with 95 % intervals over the same test nodes; empty without any.
        gain: what all labels since the first fit have gained; ``None`` without labelled test nodes.
    """

    run: str
    round: int
    added: int
    from_test: int
    known: int
    new_nodes: int
    training_nodes: int
    warm: bool
    epochs: int
    fit_seconds: float
    change: Change
    before: dict[str, Any]
    after: dict[str, Any]
    already_known: bool = False
    differences: dict[str, Difference] = dataclasses.field(default_factory=dict)
    gain: Gain | None = None
    kept_for_test: int = 0

    @property
    def within_noise(self) -> bool:
        """Whether other test nodes of the same kind could explain every change of a figure."""
        return all(one.verdict == "within noise" for one in self.differences.values())

    def verdict(self) -> str:
        """What of the change is more than noise, in one line; empty where nothing can be judged."""
        told = _in_words(self.differences)
        nodes = self.after.get("n_test", 0)
        return f"On {nodes:,} test nodes {told} (95 % intervals, paired)." if self.differences else ""

    @property
    def history(self) -> Path:
        """The folder of the previous round; it can be read as a run."""
        return Path(self.run) / "history" / str(self.round - 1)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def of_run(cls, run: Path) -> Learned:
        """The last round of a run that has learned."""
        path = run / SUMMARY
        values = storage.read_json(path)
        try:
            gain = values.get("gain")
            read = {
                "change": Change.from_dict(values["change"]),
                "differences": _differences(values.get("differences", {})),
                "gain": None if gain is None else Gain.from_dict(gain),
            }
            return cls(**{**values, **read})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise storage.damaged(path, type(error).__name__) from error


def learn(
    run: str | Path,
    labels: Mapping[Any, str | float | None] | GivenLabels,
    *,
    graph: str | None = None,
    options: dict[str, Any] | None = None,
    epochs: int | None = None,
    fresh: bool = False,
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Learned:
    """Add labels to a run's training nodes, continue training its model, and report what changed.

    The model, predictions and metrics of the previous round are kept under ``RUN/history/<n>/``. A process that is
    killed leaves either the previous round or the new one; the same call resumes an interrupted fit.

    Args:
        run: folder of a finished run.
        labels: class names, or numbers for regression, by node id; empty ones are ignored. Labels that
            are already in use are only counted. A test node that is named here becomes a training node; of a file,
            only one that ``ask`` wrote (:class:`~graphsde.runs.new_labels.GivenLabels`).
        graph: a benchmark's name or a path, if the graph has grown; its nodes are matched by id, known ones keep
            their roles and new ones have none.
        options: how to read it.
        epochs: maximum number, instead of the run's own setting.
        fresh: train from new weights instead of the current ones.
        callbacks: called once per epoch.
        say: called with progress messages.

    Example:
        >>> from graphsde.runs.learn import learn
        >>> learn("runs/first", {"item-3": "toy", "item-8": "book"})  # doctest: +SKIP
    """
    folder = RunFolder(run)
    folder.state()  # reports problems of the folder before a lock is put into it
    given = labels if isinstance(labels, GivenLabels) else GivenLabels.from_mapping(labels)
    with folder.locked():
        model, config = folder.load_model(), folder.read_config()
        if isinstance(model, TrainedElsewhere):
            raise model.cannot_fit()
        number = present_round(folder.path) + 1
        ground = _ground(folder, model, graph, options)
        known = folder.with_further(ground.book.apply(ground.graph))
        new = CHECKS.of(model)(given, known, model._require_fitted())
        if not len(new.positions) and graph is None:
            return _nothing_new(folder, new)
        if new.kept_for_test:
            say(kept_in_words(new.kept_for_test))
        _require_a_test(known, new, say)
        ids = known.node_ids[new.positions].tolist()
        fresh_labels = zip(ids, new.labels, [number] * len(ids), strict=True)
        book = dataclasses.replace(ground.book, labels=(*ground.book.labels, *fresh_labels))
        target = folder.with_further(book.apply(ground.graph))
        settings = {**_as_fitted(model, config), **({} if epochs is None else _limited(model, epochs))}
        request = {
            "round": number,
            "book": _digest(book),
            "graph": ground.facts["fingerprint"],
            "settings": settings,
            "fresh": fresh,
        }
        work = Work(folder.path, LEARNING)
        if work.begin(request):
            say(f"resuming the interrupted round in {folder.path}")
        successor, warm, seconds = _fit(folder, work, model, settings, target, fresh, callbacks, say)
        wanted, found = (None if one.calibrator is None else one.calibrator.name for one in (model, successor))
        if wanted != found:  # both sides of the comparison get the same one, whatever the settings say
            say("without a calibrator, as before" if wanted is None else f"fitting the calibrator again ({wanted})")
            successor.calibrate(target, by=wanted, samples=config["samples"])
        before = model.predict(target, samples=config["samples"])
        after = successor.predict(target, samples=config["samples"])
        assert target.train_mask is not None
        learned = Learned(
            run=str(run),
            round=number,
            added=len(ids),
            from_test=new.from_test,
            known=new.known,
            new_nodes=ground.new_nodes,
            training_nodes=int(target.train_mask.sum()),
            warm=warm,
            epochs=len(successor.history),
            fit_seconds=round(seconds, 3),
            change=compare(before, after, ~target.train_mask),
            before=figures_of(before, target),
            after=figures_of(after, target),
            differences=paired_intervals(before, after, target, COMPARED),
            gain=_gained(folder.path, after, target, number, len(book.labels), config["samples"]),
            kept_for_test=new.kept_for_test,
        )
        sizes = {role: int(mask.sum()) for role, mask in target.masks.items()}
        content = RunContent(
            config={**config, "graph": dataclasses.asdict(ground.source)},
            facts=ground.facts | {"sizes": sizes, "classes": list(target.class_names)},
            model=successor,
            prediction=after,
            graph=target,
            metrics=learned.after
            | {"fit_seconds": learned.fit_seconds, "best_epoch": successor.best_epoch, "round": learned.round},
            source=ground.read,
            say=say,
        )
        with NewState(folder.path) as state:
            outdated = content.write(state.folder)
            book.write(state.folder)
            storage.write_json(state.folder / SUMMARY, learned.as_dict())
            state.commit(round_before=number - 1, removed=[LEARNING], outdated=outdated)
    return learned


def _gained(run: Path, now: Prediction, graph: Graph, number: int, labels: int, samples: int) -> Gain | None:
    """The rounds that the run keeps and the one that is about to be written, all on the test nodes of today."""
    if not judged_nodes(now, graph).any():
        return None
    said: list[tuple[int, int, Prediction]] = []
    for folder in [*past_rounds(run), run]:
        place = number - 1 if folder == run else int(folder.name)
        past = _said_then(RunFolder(folder), graph, samples)
        if past is not None:
            said.append((place, *past))
    said.append((number, int(graph.role("train").sum()), now))
    rounds = tuple(Round(place, trained, _shown(figures_of(one, graph))) for place, trained, one in said)
    first = said[0][2] if said[0][0] == 0 and len(said) > 1 else None
    if first is None:
        return None
    differences = paired_intervals(first, now, graph, COMPARED)
    return Gain(labels, int(judged_nodes(now, graph).sum()), rounds, differences)


def _said_then(past: RunFolder, graph: Graph, samples: int) -> tuple[int, Prediction] | None:
    """How many training nodes a round had, and what it says of the nodes of today; ``None`` where it can't be read."""
    try:
        opened = past.opened()
        trained, said = int(opened.graph.role("train").sum()), opened.prediction()
        if not np.array_equal(said.ids, graph.node_ids):  # the graph has grown since
            said = opened.model.predict(graph, samples=samples)
        return trained, said
    except GraphsdeError:
        return None


def _shown(figures: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: figures[name] for name in COMPARED if name in figures}


@dataclass(frozen=True)
class _Ground:
    """The graph to learn on, without the new labels.

    Args:
        source: where it is from.
        graph: from its source.
        facts: which data it is.
        book: labels and roles applied on top of it.
        new_nodes: how many nodes the run did not know.
        read: what to keep of it, with digests of its files; ``None`` if the run has already kept it.
    """

    source: GraphSource
    graph: Graph
    facts: dict[str, Any]
    book: LabelBook
    new_nodes: int
    read: tuple[Graph, dict[str, str] | None] | None


def _ground(folder: RunFolder, model: Model, path: str | None, options: dict[str, Any] | None) -> _Ground:
    book = LabelBook.of_run(folder.path)
    if path is None:
        source = folder.source()
        files = source_files(source.graph)
        graph, facts = folder.load_source()  # refuses data that has changed
        return _Ground(source, graph, facts, book, 0, None if KEPT_GRAPH in folder.state().files else (graph, files))
    source = GraphSource.typed(path, options=folder.reading(path, options), split=KEPT_ROLES)
    files = source_files(source.graph)
    graph, facts = source.open()
    ids, roles = roles_in(folder.predictions)
    new_nodes = require_growth(ids, graph, model)
    classes = model._require_fitted() or None
    return _Ground(source, graph, facts, LabelBook(book.labels, roles, classes), new_nodes, (graph, files))


def _as_fitted(model: Model, config: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run, including those that a race chose."""
    raced = getattr(model.settings, "race", False)
    return {**model.settings.model_dump(mode="json"), "race": False} if raced else dict(config["model"]["settings"])


def _fit(
    folder: RunFolder,
    work: Work,
    model: Model,
    settings: dict[str, Any],
    graph: Graph,
    fresh: bool,
    callbacks: Sequence[Callback],
    say: Callable[[str], None],
) -> tuple[Model, bool, float]:
    """The next model, whether it continued from ``model``, and the seconds it took."""
    warm = not fresh and model.goes_on
    begin = time.perf_counter()
    # signals only reach the main thread; the page learns in another one and stops it differently
    guarded = threading.current_thread() is threading.main_thread()
    with InterruptGuard() if guarded else nullcontext() as guard:
        try:
            successor = MODELS.get(model.name)(**settings)
            if warm:
                successor.start_from(model)
            try:
                successor.fit(graph, callbacks=callbacks, checkpoint=work.checkpoint, interrupt=guard)
            except BadInput as error:
                if not warm or error.code not in MISFITS:
                    raise
                say(f"the weights no longer fit ({error.message}): training from new weights")
                warm = False
                successor = MODELS.get(model.name)(**settings)
                successor.fit(graph, callbacks=callbacks, checkpoint=work.checkpoint, interrupt=guard)
        except Interrupted as stop:
            raise Interrupted(stop.number, fix=f"run the same command again to resume ({folder.path})") from None
    return successor, warm, time.perf_counter() - begin


def kept_in_words(nodes: int) -> str:
    """What happens to given labels of test nodes that were not picked one by one."""
    return (
        f"{nodes:,} labels are those that test nodes already have: they stay in the test set "
        "(--test-labels moves them to training)"
    )


def _require_a_test(graph: Graph, new: NewLabels, say: Callable[[str], None]) -> None:
    """Refuse to use up the test set, and warn if little is left of it: figures and guarantees rest on it."""
    if not new.from_test:
        return
    left = graph.role("test") & graph.familiar
    left[new.positions] = False
    count = int(left.sum())
    if not count:
        raise BadUsage(
            f"all {new.from_test:,} labelled test nodes would become training nodes: nothing could be evaluated or "
            "certified any more",
            code="E-SPLIT-EMPTY",
            expected="some labelled test nodes that stay",
            fix="leave out some of the test nodes, or fit again with the larger graph: graphsde fit GRAPH",
        )
    if count < FEW_TEST_NODES and not graph.role("calibration").any():
        say(
            f"warning: {new.from_test:,} labels come from the test set, of which only {count:,} nodes are left: "
            f"decide calibrates on them, and needs at least {FEW_TEST_NODES} to certify a limit of 5%"
        )


def _nothing_new(folder: RunFolder, new: NewLabels) -> Learned:
    path = folder.path / SUMMARY
    if not path.is_file():
        raise BadUsage(
            f"all {new.known:,} labels are already in use: there is nothing to learn",
            code="E-EMPTY",
            found=kept_in_words(new.kept_for_test) if new.kept_for_test else None,
            fix="label nodes outside training; graphsde ask suggests some",
        )
    last = Learned.of_run(folder.path)
    return dataclasses.replace(
        last, run=str(folder.path), known=new.known, kept_for_test=new.kept_for_test, already_known=True
    )


def _limited(model: Model, epochs: int) -> dict[str, Any]:
    limited = model.training_settings(epochs=epochs)
    if limited is None:
        raise BadUsage(f"{model.name} is not trained in epochs", found=epochs, fix="leave out --epochs")
    return limited


def _digest(book: LabelBook) -> str:
    return hashlib.sha256(json.dumps(book.as_dict(), sort_keys=True).encode()).hexdigest()
