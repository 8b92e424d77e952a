"""Base of models: settings, ``fit``, ``predict``, ``save``."""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from graphsde.base.errors import BadInput, BadUsage, NotEnoughMemory, NotFitted, shorten
from graphsde.base.html import card, note, table
from graphsde.base.interrupt import InterruptGuard
from graphsde.base.registry import Registry
from graphsde.datasets.source import as_graph
from graphsde.graph.graph import Graph
from graphsde.graph.masks import require_trainable
from graphsde.graph.part_graph import PartGraph
from graphsde.graph.target import TARGETS
from graphsde.models.parameters import flat, merge_settings, plain, signature_of, split_params, with_settings_section
from graphsde.models.recipes import recipe
from graphsde.nn.callbacks import Callback, EpochRecord, shown_progress
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.likelihood import TargetScale
from graphsde.nn.settings import Settings
from graphsde.prediction import Perturb, Prediction
from graphsde.prediction.learned_from import LearnedFrom

if TYPE_CHECKING:
    from graphsde.uncertainty.calibration import Calibrator


LONGEST_REPR = 200


class ModelSettings(Settings):
    """Settings that every model has.

    Args:
        seed: of initialisation, dropout and prediction samples, each with its own stream.
    """

    seed: int = Field(0, ge=0, le=2**63 - 1)


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a fit and the prediction after it.

    Args:
        bytes: additional memory of the process, by arithmetic.
        seconds: by a trial run, as if all epochs were run.
        epochs: maximum number.
        peak: peak memory of the process, including its libraries and reading the graph;
            measured in the trial run, if there is one.
    """

    bytes: int
    seconds: float
    epochs: int
    peak: int | None = None


class Model(ABC):
    """A model that learns from a graph and predicts its nodes with uncertainty.

    Subclasses set ``name``, ``summary``, ``paper``, ``year`` and ``Settings`` and are put into :data:`MODELS`. ``fit``
    returns ``self``; ``predict`` never trains; all randomness comes from ``settings.seed``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    version: ClassVar[int] = 1
    """Increased manually when a change of code changes results; older journals are then refused."""
    Settings: ClassVar[type[ModelSettings]]
    own_score: ClassVar[str | None] = None
    """What its authors detect OOD nodes by; ``bench ood`` measures it in addition to the scores asked for."""
    targets: ClassVar[tuple[str, ...]] = ("classification",)
    """What it can predict. Each class sets it for itself: a subclass may have another loss."""
    _momentum: dict[str, Tensor] | None = None
    _learned_from: LearnedFrom | None = None
    _learned_before: LearnedFrom | None = None
    """What the weights that the next fit starts from have learned from."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for method, divide in (("fit", True), ("predict", False)):
            if method in cls.__dict__:
                setattr(cls, method, _taking_any_graph(cls.__dict__[method], divide))
        if "fit" in cls.__dict__:
            cls.fit = _showing_progress(cls.__dict__["fit"])  # type: ignore[method-assign]
        if hasattr(cls, "Settings"):
            defaults = cls.default_settings()
            cls.__signature__ = signature_of(defaults)  # type: ignore[attr-defined]
            if cls.__dict__.get("__doc__"):
                cls.__doc__ = with_settings_section(cls.__dict__["__doc__"], defaults)

    def __init__(self, **settings: Any) -> None:
        self._given = settings
        self.settings = self.Settings.parse(settings, f"model '{self.name}'")
        self._first_settings = self.settings
        self.class_names: tuple[str, ...] | None = None
        self._target_scale: TargetScale | None = None  # for regression, which has no classes
        self.history: list[EpochRecord] = []
        self.best_epoch: int | None = None
        self.calibrator: Calibrator | None = None

    @property
    def target_kind(self) -> str:
        """What a fitted model predicts: ``classification`` or ``regression``."""
        return "classification" if self._target_scale is None else "regression"

    @classmethod
    def default_settings(cls) -> ModelSettings:
        """The default settings, before a model has seen a graph."""
        return cls.Settings.model_construct()  # unchecked: a setting without a default may be missing

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings of the model, explicit or default, as plain values; a fit does not change them.

        Args:
            deep: also parts of nested ones, such as ``drift__name`` and ``consistency__weight``.
        """
        params = {name: plain(getattr(self._first_settings, name)) for name in self.Settings.model_fields}
        return flat(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Change settings, by the names of :meth:`get_params`; the model is then like a new one, not fitted."""
        if params:
            whole, parts = split_params(params)
            given = {name: plain(value) for name, value in self._given.items()}
            fresh = type(self)(**merge_settings(given | whole, parts))  # before anything here is changed
            vars(self).clear()
            vars(self).update(vars(fresh))
        return self

    def __sklearn_clone__(self) -> Self:
        """A new model with this one's explicit settings only: the rest may still depend on the graph."""
        return type(self)(**copy.deepcopy(self._given))

    def defaults_for(self, graph: Graph) -> dict[str, Any]:
        """Settings for ``graph`` that are better than the general defaults; the user's settings always take precedence.

        They are the model's in ``recipes.yaml``, otherwise those of its base class. A race ignores
        which benchmark a graph is.
        """
        names = [cls.__dict__["name"] for cls in type(self).__mro__ if "name" in cls.__dict__]
        if self._given.get("race", False):
            return next((found for name in names if (found := recipe(name, graph, benchmark=False))), {})
        return next((found for name in names if (found := recipe(name, graph))), {})

    def resolve(self, graph: Graph) -> None:
        """Fill in :meth:`defaults_for` ``graph``, so that ``settings`` has everything that a fit will use."""
        self.require_target(graph)
        values = merge_settings(self.defaults_for(graph), self._given)
        self.settings = self.Settings.parse(values, f"model '{self.name}'")

    def require_target(self, graph: Graph) -> None:
        """Refuse a graph whose target this model can't learn."""
        kind = graph.target_kind
        if kind not in handled_targets(type(self)):
            able = ", ".join(name for name in MODELS if kind in handled_targets(MODELS.get(name)))
            raise BadUsage(
                f"{self.name} supports {' and '.join(handled_targets(type(self)))}, not {kind} ({graph.name})",
                code="E-TARGET",
                expected=f"one of {able}",
                fix=f"use another model, or leave out 'target: {kind}' if the labels are something else",
            )

    @abstractmethod
    def fit(
        self,
        graph: Graph,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoint | None = None,
        interrupt: InterruptGuard | None = None,
    ) -> Self:
        """Learn from the training nodes of ``graph``.

        A PyG ``Data``, a networkx or DGL graph and a pair of data frames work as well, with the split that
        :func:`graphsde.read` would use if they have none.

        In a notebook and in an interactive interpreter a bar shows progress, unless ``callbacks`` are given;
        elsewhere use ``callbacks=[gs.ProgressBar()]``.
        """

    def start_from(self, previous: Model, *, momentum: bool = False) -> Self:
        """Make the next :meth:`fit` continue from ``previous``; a model that can't starts over.

        Args:
            previous: a fitted model of the same kind.
            momentum: also continue the optimiser, if ``previous`` was fitted in this process; files keep
                only weights.
        """
        return self

    @property
    def optimiser_state(self) -> dict[str, Tensor] | None:
        """What ``start_from(…, momentum=True)`` continues besides the weights; ``None`` where that is not known."""
        return self._momentum

    @optimiser_state.setter
    def optimiser_state(self, state: dict[str, Tensor] | None) -> None:
        self._momentum = state

    def training_settings(self, **wanted: Any) -> dict[str, Any] | None:
        """Settings that apply ``wanted`` (``epochs=5``, ``early_stop=False``) to training, wherever a model keeps
        them; ``None`` for a model without such settings."""
        return wanted if set(wanted) <= set(self.Settings.model_fields) else None

    @property
    def goes_on(self) -> bool:
        """Whether :meth:`start_from` has an effect: a model without such weights is always fitted in full."""
        return type(self).start_from is not Model.start_from

    @property
    def has_feature_gradient(self) -> bool:
        """Whether :meth:`predict` supports ``perturb``; scores that use that gradient need it."""
        return True

    @abstractmethod
    def predict(
        self, graph: Graph, *, samples: int = 64, seed: int | None = None, perturb: Perturb | None = None
    ) -> Prediction:
        """Probabilities of every node of ``graph``, which may be another graph with the same columns.

        Its kind is that of the target that the model was fitted on.

        Args:
            graph: to predict on.
            samples: how many, if the model draws samples.
            seed: of the samples; default: the model's own.
            perturb: predict at features moved along the gradient; refused by models without one.
        """

    def predict_total(self, graph: Graph, *, samples: int = 64, seed: int | None = None) -> Prediction:
        """Like :meth:`predict`, when only ``mean`` and ``total`` are needed: these have the same bits.

        A model whose epistemic part takes long to compute may leave it out.
        """
        return self.predict(graph, samples=samples, seed=seed)

    def calibrate(
        self, graph: Graph, *, by: str | None = "auto", nodes: np.ndarray | None = None, samples: int = 64
    ) -> Self:
        """Fit a calibrator on the validation nodes; :meth:`predict` applies it from then on, and files keep it.

        Args:
            graph: that the model was fitted on, with its masks.
            by: ``temperature``, ``vector``, ``gats`` or ``diffusion``, for regression ``deviation`` (see
                ``graphsde list calibrators``); ``auto`` is the first of these. ``None`` removes the current one. A
                previous one is replaced.
            nodes: mask of the nodes to fit on, instead of the validation nodes.
            samples: of the prediction that it is fitted to.

        Example:
            >>> import graphsde as gs
            >>> graph = gs.load("digits")
            >>> model = gs.LabelPropagation().fit(graph).calibrate(graph, by="temperature")
            >>> model.predict(graph).uncalibrated is not None
            True
        """
        self._require_fitted()
        if by is not None:
            from graphsde.uncertainty.calibration import DEFAULT_CALIBRATOR, fit_calibrator, require_calibrator

            by = DEFAULT_CALIBRATOR.of(self) if by == "auto" else by
            require_calibrator(by, self.target_kind)
        self.calibrator = None
        if by is not None:
            prediction = self.predict(graph, samples=samples)
            self.calibrator = fit_calibrator(prediction, graph, by=by, nodes=nodes, linear_filter=self.linear_filter())
            if self._learned_from is not None and nodes is not None:
                self._learned_from = self._learned_from.and_also(graph, nodes)
        return self

    def linear_filter(self) -> tuple[float, int] | None:
        """κ and K of ``H ← κ Â H + (1 − |κ|) H(0)``, K times, if that is how a fitted model computes its logits.

        The ``diffusion`` calibrator propagates noise by the same equation. ``None``, as for most models, makes it use
        that of personalised PageRank, κ = 0.9 and K = 10.
        """
        return None

    def _calibrated(self, prediction: Prediction, graph: Graph) -> Prediction:
        """Every ``predict`` ends with this."""
        return prediction if self.calibrator is None else self.calibrator.apply_to(prediction, graph)

    @abstractmethod
    def estimate(self, graph: Graph, *, samples: int = 64) -> Estimate:
        """Memory and time of :meth:`fit`, and of :meth:`predict` with ``samples`` after it."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What must be saved: tensors and plain values."""

    @abstractmethod
    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """The inverse of :meth:`state`, on a new model."""

    def save(self, folder: str | Path) -> Path:
        """Write ``model.safetensors`` and ``model.json`` into ``folder``."""
        from graphsde.models.files import save_model

        return save_model(self, Path(folder))

    def _refuse_perturbation(self, perturb: Perturb | None) -> None:
        if perturb is not None:
            raise BadUsage(
                f"{self.name} has no gradient with respect to features",
                code="E-SCORE",
                fix="use a score that does not perturb the features, such as entropy",
            )

    def _require_fitted(self, samples: int = 1) -> tuple[str, ...]:
        if self.class_names is None:
            raise NotFitted(f"this {self.name} has not been fitted", fix="call fit(graph) first")
        if samples < 1:
            raise BadUsage(f"invalid number of samples: {samples}", expected="at least 1")
        return self.class_names

    def _check_classes(self, graph: Graph) -> None:
        """Refuse a graph with unknown classes, or in another order: it is not the same task."""
        known = self._require_fitted()
        if graph.target.given and graph.target_kind != self.target_kind:
            mine = TARGETS.of(self).plural
            raise BadInput(
                f"the model was fitted on {mine}, the labels of the graph are {graph.target.plural}",
                code="E-TARGET",
                fix="leave out the labels of this graph, or fit again with it",
            )
        if graph.labels is not None and graph.class_names and not set(graph.class_names) <= set(known):
            new = sorted(set(graph.class_names) - set(known))
            raise BadInput(
                f"the graph has classes the model was not trained for: {', '.join(new[:5])}",
                code="E-CLASS-MAP",
                expected="classes among " + ", ".join(known),
                fix="leave those labels empty, or fit again with them",
            )

    if not TYPE_CHECKING:  # type checkers should see the missing attribute, people should get a message

        def __getattr__(self, name: str) -> Any:
            instead = f": {OF_OTHER_LIBRARIES[name]}" if name in OF_OTHER_LIBRARIES else ""
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{instead}")

    def __repr__(self) -> str:
        changed = self.settings.model_dump(exclude_defaults=True)
        inside = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({shorten(inside, LONGEST_REPR)})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"fitted": self.class_names is not None}
        if self.class_names:
            facts["classes"] = len(self.class_names)
        if self.best_epoch is not None:
            facts["best epoch"] = self.best_epoch
        if self.calibrator is not None:
            facts["calibrated by"] = self.calibrator.name
        changed = flat(self.settings.model_dump(mode="json", exclude_defaults=True))
        rows: list[dict[str, object]] = [{"setting": name, "value": str(value)} for name, value in changed.items()]
        about = note(f"{self.summary} ({self.year})")
        return card(
            f"{type(self).__name__}", facts, about, table(rows) if rows else note("all settings at their defaults")
        )


OF_OTHER_LIBRARIES = {
    "predict_proba": "model.predict(graph).mean has the probabilities",
    "decision_function": "model.predict(graph).logits has the logits",
    "score": "gs.evaluate(model.predict(graph), graph) has accuracy and other metrics",
    "classes_": "model.class_names has the classes",
    "fit_predict": "use model.fit(graph).predict(graph)",
    "train": "use model.fit(graph)",
    "to": "create the model with device='cuda', or use fit and predict inside gs.on_device('cuda')",
    "cuda": "create the model with device='cuda', or use fit and predict inside gs.on_device('cuda')",
}
"""Methods of scikit-learn or torch, and their equivalents here."""


def _taking_any_graph(method: Callable[..., Any], divide: bool) -> Callable[..., Any]:
    """A ``fit`` or ``predict`` that also accepts graphs of other libraries (see :func:`graphsde.as_graph`)."""
    if getattr(method, "__isabstractmethod__", False):
        return method

    @functools.wraps(method)
    def taking(self: Model, *graph: Any, **options: Any) -> Any:
        if "graph" in options and not graph:
            graph = (options.pop("graph"),)
        if len(graph) != 1 or {"X", "x", "y"} & set(options):
            raise _as_in_scikit_learn(method.__name__, len(graph))
        try:
            taken = as_graph(graph[0], divide=divide)
            if divide:
                _require_roles(taken)
            found = method(self, taken, **options)
            if isinstance(found, Prediction):
                return found.known_to_be_of(taken, self._learned_from)
            if divide and not isinstance(taken, PartGraph):
                self._learned_from = _also_before(LearnedFrom.of(taken), taken, self._learned_before)
            return found
        except torch.cuda.OutOfMemoryError as error:
            raise NotEnoughMemory(
                f"out of memory on the device in {method.__name__} of {self.name}",
                fix="use a smaller hidden width, fewer paths or a smaller graph, or device='cpu'",
            ) from error

    return taking


def _also_before(learned: LearnedFrom | None, graph: Graph, before: LearnedFrom | None) -> LearnedFrom | None:
    if learned is None or before is None:
        return learned
    return learned.and_also(graph, before.among(graph))


def _require_roles(graph: Graph) -> None:
    """Refuse to fit a graph that has labels but no training nodes.

    Roles are not assigned here: the caller's graph would not have them, and could not tell later which labels are
    still unseen.
    """
    if isinstance(graph, PartGraph) or not graph.labelled.any() or graph.role("train").any():
        return
    if graph.masks:
        require_trainable(graph, early_stop=False)  # other roles are there, and a new split would ignore them
    raise BadInput(
        f"'{graph.name}' has no training nodes: its nodes have no roles",
        code="E-NO-MASKS",
        expected="a training mask",
        fix="give the nodes roles, graph = gs.split(graph), and use that graph to fit, predict and decide",
    )


def _as_in_scikit_learn(method: str, given: int) -> BadUsage:
    return BadUsage(
        f"{method} takes one graph, which holds features, edges and labels together",
        found=f"{given} arguments" if given else "no graph",
        expected=f"model.{method}(graph)",
        fix=f"build a graph from the arrays: graph = gs.from_arrays(X, edges, labels=y); model.{method}(graph)",
    )


def _showing_progress(method: Callable[..., Any]) -> Callable[..., Any]:
    """A ``fit`` that shows its progress unless callbacks watch it (:func:`shown_progress`)."""
    if getattr(method, "__isabstractmethod__", False) or "callbacks" not in inspect.signature(method).parameters:
        return method

    @functools.wraps(method)
    def showing(self: Model, *graph: Any, **options: Any) -> Any:
        with shown_progress(options.get("callbacks", ()), f"fitting {self.name}") as callbacks:
            return method(self, *graph, **(options | {"callbacks": callbacks} if callbacks else options))

    return showing


def handled_targets(cls: type[Model]) -> tuple[str, ...]:
    """What the models of a class can predict, as the class declares."""
    return tuple(cls.__dict__.get("targets", Model.targets))


MODELS: Registry[type[Model]] = Registry(
    "model", base=Model, facts=lambda cls: {"paper": cls.paper, "year": cls.year, "targets": list(handled_targets(cls))}
)
register_model = MODELS.add_class


def encode(encoder: FeatureEncoder, graph: Graph) -> Tensor | Any:
    """Encoded features as a tensor or a :class:`SparseMatrix`."""
    import scipy.sparse as sp

    from graphsde.graph.sparse import SparseMatrix

    if isinstance(graph, PartGraph):
        return graph.encoded[encoder.scaling]

    matrix = encoder.transform(graph)
    if sp.issparse(matrix):
        return SparseMatrix.from_scipy(matrix)
    # a copy of a graph's own arrays: they are read-only, which torch can't express
    return torch.from_numpy(matrix) if matrix.flags.writeable else torch.tensor(matrix)
