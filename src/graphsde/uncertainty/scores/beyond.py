"""Scores that use more than the outputs: training nodes' embeddings (GEBM, Mahalanobis), perturbed features (ODIN)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.adjacency import Adjacency
from graphsde.prediction import ClassPrediction, Perturb, Predictor, require
from graphsde.prediction.classification import log_sum_exp
from graphsde.uncertainty.held_out import TrainingNodes, embedding_of, require_same_nodes, training_nodes
from graphsde.uncertainty.scores.propagation import require_smoothing, require_temperature
from graphsde.uncertainty.scores.registry import SCORES

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


# floor of variances in the reference implementation: a column constant within a class would divide by zero
_SMALLEST_VARIANCE = 1e-6
_INTERVAL = (0.025, 0.975)


@SCORES.register(
    "gebm",
    summary="energies of logits without edges, corrected by distance to the classes, at three scales of the graph",
    paper="Fuchsgruber, Wollschläger and Günnemann, Energy-based Epistemic Uncertainty for Graph Neural Networks",
    year=2024,
    needs=("logits", "embedding", "graph", "model", "train"),
    spreads=True,
)
def gebm(
    prediction: ClassPrediction,
    graph: Graph,
    model: Predictor,
    *,
    gamma: float = 1.0,
    temperature: float = 1.0,
    alpha: float = 0.5,
    steps: int = 10,
    independent: float = 1.0,
    local: float = 1.0,
    group: float = 1.0,
    seed: int | None = None,
    reference: tuple[ClassPrediction, Graph] | None = None,
) -> np.ndarray:
    """Graph energy-based model: a weighted sum of three energies.  # [N]

    The model predicts once more without edges, for logits ``z`` and embeddings ``h`` of each node by itself. Every
    class c has a Gaussian with diagonal covariance, fitted on the (ordinary) embeddings of its training nodes; the
    squared distance ``d_c(h)`` to it makes the evidence ``e_c = z_c − γ r_c``, where ``r_c`` is ``d_c`` stretched so
    that its central 95 % over the nodes of the reference fall on the central 95 % of the logits of class c. Without
    that term energies fall without bound far from the data. With ``E(e) = −T ln Σ_c exp(e_c / T)`` and the smoothing
    ``S: x ← α x + (1 − α) (D + I)⁻¹ (A + I) x``, repeated ``steps`` times:

    * independent: ``E(e)``, the node alone;
    * local: ``E(S e)``, evidence smoothed before it is summed over classes: neighbours of different classes conflict;
    * group: ``S E(e)``, energies smoothed: the whole cluster is OOD.

    As in the paper and its public implementation, up to: quantiles are interpolated, variances below 1e-6 are set to
    1e-6 one by one, weights of edges count, and classes without training nodes (which the paper does not have) give no
    evidence. A class with one training node takes the spread pooled over classes.

    Args:
        prediction: of ``model`` on ``graph``, with logits and an embedding.
        graph: predicted on; its edges smooth.
        model: the one that predicted; must be able to predict without edges.
        gamma: weight of the correction.
        temperature: ``T > 0``.
        alpha: share of its own value that a node keeps in a step.
        steps: rounds of smoothing.
        independent, local, group: weights of the three energies.
        seed: of the samples, if ``prediction`` was drawn with another than the model's own.
        reference: prediction and graph that the statistics come from; ``prediction`` and ``graph`` if not given. For
            a shifted graph pass the clean one.
    """
    require_temperature("gebm", temperature)
    require_smoothing("gebm", alpha, steps)
    require_same_nodes(prediction, graph)
    densities = ClassDensities.fit(*(reference or (prediction, graph)))
    alone = model.predict(_without_edges(graph), samples=prediction.num_samples, seed=seed)
    evidence = densities.evidence(require(alone, ClassPrediction, "gebm"), gamma)  # [N, G]

    energy = _energy(evidence, temperature)
    smooth = _smoother(graph, alpha)
    smoothed_evidence, smoothed_energy = evidence, energy
    for _ in range(steps):
        smoothed_evidence, smoothed_energy = smooth @ smoothed_evidence, smooth @ smoothed_energy
    return independent * energy + local * _energy(smoothed_evidence, temperature) + group * smoothed_energy


@dataclass(frozen=True, eq=False)
class ClassDensities:
    """A diagonal Gaussian per class, and what maps its distances onto the scale of logits.

    Args:
        classes: columns of the prediction that have training nodes.  # [G]
        mean, variance: of the embedding.  # [G, h]
        distance: lower and upper end of the central interval of squared distances, per class.  # [2, G]
        logit: the same of logits.  # [2, G]
    """

    classes: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    distance: np.ndarray
    logit: np.ndarray

    @classmethod
    def fit(cls, prediction: ClassPrediction, graph: Graph) -> ClassDensities:
        known = training_nodes(prediction, graph)
        mean, variance = known.means, _variances(known)
        distances = _distances(embedding_of(prediction), mean, variance)
        return cls(
            known.classes,
            mean,
            variance,
            np.quantile(distances, _INTERVAL, axis=0),
            np.quantile(_mean_logits(prediction)[:, known.classes], _INTERVAL, axis=0),
        )

    def evidence(self, prediction: ClassPrediction, gamma: float) -> np.ndarray:
        """``z_c − γ r_c`` of the classes with training nodes.  # [N, G]"""
        width = self.distance[1] - self.distance[0]
        place = _distances(embedding_of(prediction), self.mean, self.variance) - self.distance[0]
        place = np.divide(place, width, out=np.zeros_like(place), where=width > 0)
        stretched = self.logit[0] + place * (self.logit[1] - self.logit[0])
        return _mean_logits(prediction)[:, self.classes] - gamma * stretched


def _variances(known: TrainingNodes) -> np.ndarray:
    squares = np.zeros((len(known.classes), known.embedding.shape[1]))
    np.add.at(squares, known.group, np.square(known.residuals))
    spare = known.count - 1
    pooled = squares.sum(axis=0) / max(int(spare.sum()), 1)
    own = np.divide(squares, spare[:, None], out=np.tile(pooled, (len(spare), 1)), where=spare[:, None] > 0)
    return np.maximum(own, _SMALLEST_VARIANCE)


def _distances(embedding: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Squared, per node and class.  # [N, G]"""
    return np.stack([(np.square(embedding - m) / v).sum(axis=1) for m, v in zip(mean, variance, strict=True)], axis=1)


def _mean_logits(prediction: ClassPrediction) -> np.ndarray:
    if (logits := prediction.mean_logits) is None:
        raise BadUsage("gebm needs logits, and this prediction has none", code="E-SCORE", fix="use mahalanobis")
    return logits


def _energy(evidence: np.ndarray, temperature: float) -> np.ndarray:
    return -temperature * log_sum_exp(evidence / temperature)


def _without_edges(graph: Graph) -> Graph:
    empty = sp.csr_array((graph.num_nodes, graph.num_nodes), dtype=np.float32)
    return graph.with_adjacency(Adjacency(empty, directed=graph.adjacency.directed))


def _smoother(graph: Graph, alpha: float) -> sp.csr_array:
    """``α I + (1 − α) (D + I)⁻¹ (A + I)``; a node without neighbours keeps what it has."""
    own = sp.eye_array(graph.num_nodes, format="csr")
    looped = sp.csr_array(graph.adjacency.incoming.astype(np.float64) + own)
    share = sp.dia_array((1.0 / looped.sum(axis=1)[None, :], [0]), shape=looped.shape)
    return sp.csr_array(alpha * own + (1.0 - alpha) * (share @ looped))


@SCORES.register(
    "mahalanobis",
    summary="distance of the embedding to the nearest class, in units of the spread within classes",
    paper="Lee et al., A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
    year=2018,
    needs=("embedding", "graph", "train"),
)
def mahalanobis(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    relative: bool = False,
    reference: tuple[ClassPrediction, Graph] | None = None,
) -> np.ndarray:
    """``min_c (h − μ_c)ᵀ Σ⁻¹ (h − μ_c)``, the squared distance to the nearest class.  # [N]

    ``μ_c`` are the means of the training nodes of class c, ``Σ`` is their pooled covariance with Ledoit and Wolf's
    shrinkage: with a few dozen training nodes the plain covariance is singular. Classes without training nodes are
    skipped. A public benchmark on graphs takes the distance itself as *confidence*, and its statistics from the first
    rows instead of the training nodes; results obtained that way are not comparable.

    Args:
        prediction: with an embedding.
        graph: predicted on.
        relative: subtract the distance to one Gaussian of all training nodes (Ren et al., 2021), so that directions
            unrelated to classes don't count; then the score can be negative.
        reference: prediction and graph that the statistics come from; ``prediction`` and ``graph`` if not given. For
            a shifted graph pass the clean one.
    """
    known = training_nodes(*(reference or (prediction, graph)))
    embedding = embedding_of(prediction)
    spread = _precision(known.residuals)
    distance = np.min([_distance(embedding - mean, spread) for mean in known.means], axis=0)
    if relative:
        centre = known.embedding.mean(axis=0)
        distance -= _distance(embedding - centre, _precision(known.embedding - centre))
    return distance


def _precision(centred: np.ndarray) -> np.ndarray:
    """Inverse of the shrunk covariance.  # [h, h]"""
    from sklearn.covariance import LedoitWolf

    if not centred.any():
        raise BadInput(
            "all training nodes of a class have the same embedding: there is no spread to measure distance with",
            code="E-CLASS-SMALL",
            found=f"{len(centred)} training nodes",
            expected="two or more per class, in a model that has learned",
        )
    return LedoitWolf(assume_centered=True).fit(centred).precision_


def _distance(offset: np.ndarray, precision: np.ndarray) -> np.ndarray:
    return np.einsum("nh,nh->n", offset @ precision, offset)


_SMALLEST_PROBABILITY = 1e-30


@SCORES.register(
    "odin",
    summary="one minus the largest tempered probability after a step of the features towards the model's answer",
    paper="Liang et al., Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks",
    year=2018,
    needs=("probs", "graph", "model", "gradient"),
)
def odin(
    prediction: ClassPrediction,
    graph: Graph,
    model: Predictor,
    *,
    size: float = 0.01,
    temperature: float = 1.0,
    seed: int | None = None,
) -> np.ndarray:
    """``1 − max_c softmax(z(x′) / T)_c``, mean over samples before the maximum.  # [N]

    ``x′ = x − ε sign(∇_x Σ_i CE(z_i(x)/T, argmax z_i))``: an in-distribution node gains more confidence than an
    OOD one. On a graph a node's features act on its neighbours' loss too; all nodes are moved at once.

    Two pitfalls. *Orientation*: the maximum of the softmax is confidence, so its complement is returned here; a public
    benchmark on graphs negates the maximum and treats high values as in-distribution; the AUROC near 50 and FPR95 of
    100 reported for ODIN come from there. *Scale*: a step in absolute units can be larger than the features (row-
    normalised bag-of-words have a mean near 1e-3), so ``size`` is in standard deviations.

    With ``size=0`` and ``temperature=1`` this is ``msp`` exactly. The temperature multiplies the one that calibrated
    ``prediction``, if any.

    Args:
        prediction: of ``model`` on ``graph``; sets the number of samples.
        graph: predicted on.
        model: the one that predicted; must have a gradient with respect to the features.
        size: ε, in standard deviations of the features as the model sees them.
        temperature: ``T > 0``. The paper uses 1000; on Cora 1 ranks the errors among validation nodes best, and a high
            one lets outputs that no training node has (label leave-out keeps them) weigh as much as the others.
        seed: of the samples, if ``prediction`` was drawn with another than the model's own.
    """
    from scipy.special import softmax

    require_temperature("odin", temperature)
    if not 0 <= size < np.inf:
        raise BadUsage("the step size can't be negative", place="odin", found=size, expected="0 or more")
    require_same_nodes(prediction, graph)
    total = temperature * prediction.temperature
    answer = model.predict(graph, samples=prediction.num_samples, seed=seed, perturb=Perturb(size, total))
    moved = require(answer, ClassPrediction, "odin")
    if total == moved.temperature:
        return 1.0 - moved.confidence
    mean = np.zeros((moved.num_items, moved.num_classes))
    for scores in _log_scale(moved):  # one sample at a time: a float64 copy of all of them could be large
        mean += softmax(scores.astype(np.float64) / total, axis=-1)
    return 1.0 - mean.max(axis=-1) / moved.num_samples


def _log_scale(prediction: ClassPrediction) -> np.ndarray:
    """Logits; for a Dirichlet, whose probabilities are no softmax, the logarithm of the mean.  # [S, N, C]"""
    if prediction.logits is None or prediction.kind == "dirichlet":
        return np.log(np.maximum(prediction.probs, _SMALLEST_PROBABILITY))
    return prediction.logits
