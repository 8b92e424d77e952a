"""Keyword arguments of each model, for type checkers: a model's ``Settings`` in another form.

Written by ``studies/model_options.py``; a test compares names and types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from graphsde.models.lgnsde.settings import ConsistencySettings, Part


class TrainOptions(TypedDict, total=False):
    epochs: int
    lr: float
    optimizer: Literal["adam", "adamax"]
    patience: int
    evaluate_every: int
    early_stop: bool
    select: Literal["nll", "accuracy"]


class ModelOptions(TypedDict, total=False):
    seed: int


class NetworkOptions(ModelOptions, TrainOptions, total=False):
    scaling: Literal["auto", "row", "l2", "standard", "none"]
    device: str | None


class NeuralOptions(NetworkOptions, total=False):
    temperature: bool
    race: bool


class APPNPOptions(NeuralOptions, total=False):
    hidden: int
    dropout: float
    teleport: float
    steps: int
    weight_decay: float


class BGCNOptions(NetworkOptions, total=False):
    layers: int
    hidden: int
    blocks: int
    masks: Literal["directions", "edges"]
    dropout: float
    alpha: float
    temperature: float
    penalty: float
    kl_weight: float
    kl_warmup: int
    validation_samples: int


class BGCNMeanFieldOptions(NeuralOptions, total=False):
    hidden: int
    activation: Literal["relu", "softplus"]
    dropout: float
    init: Literal["glorot", "normal"]
    rho: float
    kl_weight: float
    kl_unit: Literal["elbo", "weight"]
    validation_samples: int


class EnsembleOptions(ModelOptions, total=False):
    base: str
    base_settings: dict[str, Any]
    members: int
    passing: Literal["none", "knowledge"]
    knowledge_weight: float
    temperature: bool


class GATOptions(NeuralOptions, total=False):
    heads: int
    head_width: int
    output_heads: int
    dropout: float
    attention_dropout: float
    weight_decay: float


class GCNOptions(NeuralOptions, total=False):
    hidden: int
    dropout: float
    node_dropout: float
    weight_decay: float
    decay_all: bool
    activation: str
    batch_norm: bool


class GKDEOptions(NetworkOptions, total=False):
    hidden: int
    dropout: float
    weight_decay: float
    bandwidth: float
    prior_weight: float
    teacher_weight: float
    teacher_ramp: int
    reduction: Literal["mean", "sum"]


class GNNSafeOptions(GCNOptions, total=False):
    exposure: Literal["auto", "nodes", "features", "structure"]
    margin_in: float
    margin_out: float
    energy_weight: float
    propagate: int


class LGNSDEOptions(NeuralOptions, total=False):
    preset: str
    hidden: int
    state: Literal["wide", "logits"]
    ego: bool
    encoder: Literal["linear", "gcn", "mlp"]
    encoder_width: int
    encoder_activation: Literal["none", "relu"]
    encoder_norm: Literal["none", "batch"]
    feature_dropout: float
    encoder_dropout: float
    node_dropout: float
    latent_dropout: float
    decoder: Literal["linear", "gcn"]
    decoder_activation: Literal["none", "relu"]
    decoder_dropout: float
    drift: str | dict[str, Any] | Part
    prior: str | dict[str, Any] | Part
    diffusion: str | dict[str, Any] | Part
    solver: str | dict[str, Any] | Part
    sigma: float
    sigma_is: Literal["absolute", "ratio"]
    signal: Literal["prediction", "training"]
    noise_by: Literal["paths", "marginals"]
    horizon: float
    steps: int
    gradients: Literal["store", "checkpoint", "reversible"]
    objective: Literal["elbo", "mixture", "importance"]
    kl_weight: float
    kl_unit: Literal["elbo", "node"]
    kl_warmup: int
    consistency: dict[str, Any] | ConsistencySettings
    paths: int
    validation_paths: int
    calibrator: str | None
    decay_all: bool
    weight_decay: float
    way: Literal["full", "partitioned", "batched"] | None
    parts: int | None
    neighbours: int | None
    batch: int | None
    predict_by: Literal["walk", "rows"] | None


class GNSDOptions(NeuralOptions, total=False):
    hidden: int
    noise: Literal["diagonal", "q-wiener"]
    modes: int
    horizon: float
    steps: int
    dropout: float
    weight_decay: float
    paths: int
    validation_paths: int
    gradients: Literal["store", "checkpoint"]


class GPNOptions(NetworkOptions, total=False):
    hidden: int
    latent: int
    flow_layers: int
    feature_dropout: float
    dropout: float
    teleport: float
    steps: int
    budget: Literal["latent", "latent-plus-classes"]
    entropy_weight: float
    weight_decay: float
    warmup: int


class FlowOptions(NeuralOptions, total=False):
    hidden: int
    input_dropout: float
    dropout: float
    weight_decay: float
    horizon: float
    solver: Literal["rk4", "euler", "dopri5"]
    steps: int
    rtol: float
    atol: float
    max_evaluations: int
    gradients: Literal["store", "checkpoint"]
    attention: Literal["scaled-dot", "cosine", "exp-kernel"]
    heads: int
    attention_width: int


class GRANDOptions(FlowOptions, total=False):
    variant: Literal["linear", "nonlinear"]
    source: bool
    normalise: Literal["rows", "columns"]
    sharing: Literal["softmax", "squareplus"]


class GraphGPOptions(ModelOptions, TrainOptions, total=False):
    laplacian: Literal["normalised", "unnormalised"]
    modes: int | None
    nu: float
    kappa: float | None
    sigma: float
    learn_kernel: bool
    kernel_lr: float
    covariance: Literal["full", "diagonal"]
    inducing: int
    batch: int
    draws: int
    features: Literal["none", "linear", "rbf"]
    hops: int
    scaling: Literal["auto", "row", "l2", "standard", "none"]


class GREADOptions(FlowOptions, total=False):
    reaction: Literal["bs", "fisher", "allen-cahn", "zeldovich", "source", "fb", "fb*"]
    adjacency: Literal["soft", "original"]


class LabelPropagationOptions(ModelOptions, total=False):
    alpha: float
    steps: int


class MCDropoutOptions(GCNOptions, total=False):
    validation_samples: int


class MLPOptions(NeuralOptions, total=False):
    hidden: int
    dropout: float
    weight_decay: float


class SGCOptions(NeuralOptions, total=False):
    steps: int
    weight_decay: float


class LogisticOptions(ModelOptions, total=False):
    scaling: Literal["auto", "row", "l2", "standard", "none"]
    c: float | None
    temperature: bool


class LogisticHopsOptions(LogisticOptions, total=False):
    hops: int | None
