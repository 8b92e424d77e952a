"""Settings of an LGNSDE, validated; parts by attribute: ``drift.GAT(heads=4)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

import graphsde.sde.prior  # noqa: F401  (registers the priors)
from graphsde.base.registry import Registry, unknown_name
from graphsde.base.renames import FORMER, as_currently, current
from graphsde.models.neural import NeuralSettings
from graphsde.nn.settings import Settings
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.prior import PRIORS
from graphsde.sde.solvers import SOLVERS


class Part(Settings):
    """A drift, prior, diffusion or solver by name, with its own options.

    Args:
        name: one that is registered.
        options: of the part.
    """

    spelt_as: ClassVar[Any] = str | dict[str, Any]
    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class ConsistencySettings(Settings):
    """Consistency: agreement among the paths of a node, for all nodes, labelled or not.

    Args:
        kind: ``none``; ``sharpen`` (towards the sharpened mean: best if every class is known, but it makes OOD
            nodes confident); ``confident`` (towards the plain mean, and less entropy only if the mean is confident
            already).
        weight: λ.
        temperature: τ of sharpening, p^{1/τ} normalised.
        begin: the first epoch in which it is used.
        warmup: epochs until it has its full weight.
        gated: multiply the weight by 1 − (training NLL)/ln C, at least 0: as long as the labelled nodes are hardly
            learned, agreement would only spread the class that happens to lead, and training can collapse onto it.
        by_evidence: weight each node by how much it resembles the trained classes, so that nodes of unknown
            classes are not made confident; see :class:`~graphsde.uncertainty.evidence.Evidence`.
    """

    kind: Literal["none", "sharpen", "confident"] = "none"
    weight: float = Field(1.0, ge=0)
    temperature: float = Field(0.35, gt=0, le=1)
    begin: int = Field(6, ge=1)
    warmup: int = Field(100, ge=1)
    gated: bool = True
    by_evidence: bool = False


class LGNSDESettings(NeuralSettings):
    """Settings of :class:`~graphsde.models.lgnsde.LGNSDE`.

    Args:
        preset: source of the other defaults. Default ``auto``; if parts are given (drift, prior,
            diffusion, solver, decoder, ...) it is ``universal``, and with a drift or prior that is not made for
            relative noise it is ``paper``.
        hidden: width of the latent state; in the space of logits, channels per class.
        state: ``wide``, with a decoder that reads it, or ``logits``: H lives in the space of logits, whose channels
            are summed class by class.
        ego: pass H(0) to the decoder along with H(T), so that a node's own features reach it unchanged.
        encoder: ``linear`` and ``mlp`` act on each node alone, ``gcn`` is one graph convolution.
        encoder_width: of the hidden layer of an ``mlp``.
        encoder_activation: after the encoder.
        encoder_norm: ``batch`` normalises H(0) channel by channel over the nodes.
        feature_dropout: on the input's entries.
        encoder_dropout: on the hidden layer of an ``mlp``.
        node_dropout: on whole rows of H(0).
        latent_dropout: on the entries of H(0).
        decoder: of a wide state; ``linear`` acts on each node alone, ``gcn`` is one graph convolution.
        decoder_dropout: on relu(H(T)).
        decoder_activation: before the last layer.
        drift: the posterior's, by name: ``"gcn"``, or with options ``gs.drift.GCN(layers=3)``.
        prior: the prior's drift, by name or as ``gs.prior.OU(theta=1.0)``.
        diffusion: the noise, by name; see ``graphsde list diffusions``.
        solver: by name; see ``graphsde list solvers``.
        sigma: scale of the noise: absolute, or relative to the signal.
        sigma_is: ``absolute``, or ``ratio``: noise-to-signal ratio at the horizon, the signal being the root mean
            square of the noise-free state around its mean over nodes.
        signal: which state that is: of ``prediction`` (without dropout; measured at every validation
            and at the end), or a running mean over ``training``, whose dropout makes it larger.
        noise_by: ``paths`` simulates the equation; ``marginals`` draws each node's state from its exact law, which is
            all that matters if drift and noise are linear and the decoder acts on each node alone.
        horizon: T, the end of the time axis.
        steps: number of equal steps.
        gradients: how memory is traded for time: ``store``, ``checkpoint`` or ``reversible``.
        objective: what the KL is subtracted from: ``elbo``, the expected log-likelihood (with ``kl_weight=1`` and
            ``kl_unit=elbo`` the evidence lower bound); ``mixture``, the log-likelihood of the mean over paths, which is
            what is predicted, but minus the KL no bound of the evidence; ``importance``, the importance-weighted bound,
            if the path KL has a closed form.
        kl_weight: weight of the path KL.
        kl_unit: ``elbo`` divides the KL by the number of training nodes, so that 1 is the evidence lower bound;
            ``node`` divides it by the number of all nodes, which transfers better between graphs.
        kl_warmup: epochs until the KL has its full weight.
        consistency: agreement among the paths of a node, such as ``{"kind": "sharpen", "weight": 1.0}``; see
            :class:`ConsistencySettings`.
        paths: drawn in every training step.
        validation_paths: drawn for every validation.
        temperature: fit one temperature on the validation nodes after training.
        calibrator: fitted on the validation nodes after that, by name (``graphsde list calibrators``); none for most
            presets, ``distance-aware`` for ``auto``: the noise of the SDE grows where a node looks unlike the training
            nodes, and makes it less certain.
        weight_decay: on the encoder (of an ``mlp``, its first layer), and on the rest if ``decay_all``.
        decay_all: weight decay on every parameter.
        way: how to train on a large graph: ``full`` (the default); ``partitioned``, the same solve part
            by part; ``batched``, by batches of nodes, which approximates it.
        parts: of a graph that is trained on in parts, or in clusters.
        neighbours: of every node in batches, the heaviest of its row of the solution operator.
        batch: nodes in a batch: training nodes, or all nodes of the clusters of a step.
        predict_by: after training by batches of neighbours, ``walk`` (the default) solves the whole graph once,
            exactly; ``rows`` uses the same approximate rows as training, block by block.
    """

    preset: str = "auto"
    hidden: int = Field(32, ge=1, le=65536)
    state: Literal["wide", "logits"] = "wide"
    ego: bool = False
    encoder: Literal["linear", "gcn", "mlp"] = "linear"
    encoder_width: int = Field(64, ge=1, le=65536)
    encoder_activation: Literal["none", "relu"] = "none"
    encoder_norm: Literal["none", "batch"] = "none"
    feature_dropout: float = Field(0.3, ge=0, lt=1)
    encoder_dropout: float = Field(0.5, ge=0, lt=1)
    node_dropout: float = Field(0.3, ge=0, lt=1)
    latent_dropout: float = Field(0.0, ge=0, lt=1)
    decoder: Literal["linear", "gcn"] = "linear"
    decoder_activation: Literal["none", "relu"] = "relu"
    decoder_dropout: float = Field(0.3, ge=0, lt=1)
    drift: Part = Part(name="graph-heat")
    prior: Part = Part(name="graph-ou")
    diffusion: Part = Part(name="smoothed")
    solver: Part = Part(name="euler")
    sigma: float = Field(0.25, ge=0, le=1e6)
    sigma_is: Literal["absolute", "ratio"] = "ratio"
    signal: Literal["prediction", "training"] = "prediction"
    noise_by: Literal["paths", "marginals"] = "paths"
    horizon: float = Field(4.0, gt=0, le=1e6)
    steps: int = Field(4, ge=1, le=1_000_000)
    gradients: Literal["store", "checkpoint", "reversible"] = "store"
    objective: Literal["elbo", "mixture", "importance"] = "mixture"
    kl_weight: float = Field(0.0, ge=0)
    kl_unit: Literal["elbo", "node"] = "node"
    kl_warmup: int = Field(100, ge=1)
    consistency: ConsistencySettings = ConsistencySettings()
    paths: int = Field(2, ge=1, le=10_000)
    validation_paths: int = Field(32, ge=1, le=10_000)
    temperature: bool = True
    calibrator: str | None = None
    decay_all: bool = False
    weight_decay: float = Field(1e-3, ge=0)
    way: Literal["full", "partitioned", "batched"] | None = None
    parts: int | None = Field(None, ge=1, le=1_000_000)
    neighbours: int | None = Field(None, ge=1, le=65_536)
    batch: int | None = Field(None, ge=1, le=100_000_000)
    predict_by: Literal["walk", "rows"] | None = None


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
        kind = self._registry.kind
        for name in (*self._registry, *FORMER.get(kind, {})):
            if _letters(name) == _letters(attribute):
                return lambda **options: {"name": current(kind, name), "options": options}
        raise unknown_name(self._registry.kind, attribute.lower(), self._registry.names())

    def __dir__(self) -> list[str]:
        return [name.replace("-", "_") for name in self._registry]


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _spelt(part: Any) -> Any:
    if isinstance(part, str):
        return {"name": part}
    return part.model_dump() if isinstance(part, Part) else part


def plain_parts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Short forms expanded: ``drift="gcn"`` is ``drift={"name": "gcn"}``, a solver's ``steps`` are the model's, and a
    former name becomes the current one."""
    spelt = as_currently({name: _spelt(value) if name in PART_NAMES else value for name, value in settings.items()})
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
drift = Namespace(DRIFTS)
"""Drifts by name: ``gs.drift.gat(heads=2)`` is the setting ``drift`` of :class:`graphsde.LGNSDE`."""
prior = Namespace(PRIORS)
"""Prior drifts by name: ``gs.prior.ou()``."""
diffusion = Namespace(DIFFUSIONS)
"""Diffusions by name: ``gs.diffusion.constant()``."""
solver = Namespace(SOLVERS)
"""Solvers by name: ``gs.solver.heun()``."""
