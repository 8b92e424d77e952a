"""Training by batches: of nodes if the drift is a fixed linear filter, otherwise of clusters.

**Nodes.** The mean path of a linear drift with fixed coefficients is H(T) = Π H(0). The heaviest entries of the rows of
Π are found once (:mod:`graphsde.graph.solution_rows`); then a batch needs the initial states of the nodes in its rows,
those of a sample that represents the rest of the graph, and no edges: the cost of a step does not depend on the
size of the graph (Bojchevski et al., "Scaling graph neural networks with approximate PageRank", KDD 2020).

**Clusters** have few edges between them (Chiang et al., "Cluster-GCN: an efficient algorithm for training deep and
large graph convolutional networks", KDD 2019). A step uses a few random ones and the edges among them, so that over the
epochs the edges between clusters are used too. Degrees are those among the nodes of the step: with the whole graph's a
walk would lose most of its mass in a dense graph, and what was trained would not fit the whole graph's operator.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import derive, numpy_stream
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.partition import partition
from graphsde.graph.solution_rows import LinearFilter, background_sample, degree_roots, solution_rows
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import encode
from graphsde.models.lgnsde.learner import LGNSDELearner, consistency, path_likelihood, ramp
from graphsde.models.lgnsde.module import SIGNAL_MOMENTUM, LGNSDEModule, Noise, signal_level
from graphsde.models.lgnsde.settings import LGNSDESettings
from graphsde.models.neural import Inputs, NeuralModel
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.layers import Features, features_on
from graphsde.nn.mask_stream import MaskStream
from graphsde.nn.operators import smoothing_scale
from graphsde.sde.brownian import BrownianMotion
from graphsde.sde.drift.graph_filter import GraphFilterDrift
from graphsde.sde.drift.graph_heat import GraphHeatDrift
from graphsde.uncertainty.state_posterior import StatePosterior

NEIGHBOURS = 64
BATCH = 1024
"""Default number of training nodes in a step."""
MOST_STEPS = 16
"""Steps of an epoch by batches of nodes: with more training nodes, one pass takes several epochs."""
MOST_TRAINED, MOST_VALIDATED = 16_384, 2_048
"""Maximum number of nodes with rows; of more, this many are drawn once for the seed."""
CLUSTERED_BATCH = 8192
"""Default number of nodes in a step by clusters."""
VALIDATED_AT_ONCE = 1 << 26
"""Up to this many numbers in all validation paths, an epoch is validated on the whole graph."""
CLUSTERS_A_STEP = 4
FEWEST_CLUSTERS = 8
POOL = 2048
"""Nodes without a training label whose rows are kept; every step draws some for the consistency loss."""
FEWEST_OTHERS = 256
"""Such nodes in a step; more where a batch has more training nodes."""
BACKGROUND = 256
"""Nodes of a step that represent the distant rest of the graph; drawn from 4,096 that are drawn once."""
MOST_BACKGROUND = 4096
MOST_JUDGES = 128
"""Validation nodes that set the confidence threshold of a step."""
BLOCK_OF_NODES = 8192
"""Nodes whose rows are kept at once in a prediction by rows."""


@dataclass(frozen=True)
class ChannelFilter:
    """The filter of some channels of the state."""

    filter: LinearFilter
    channels: Tensor  # [c] int64


def why_no_rows(module: LGNSDEModule) -> str | None:
    """Why Π is not known before training; ``None`` if it is."""
    s, drift = module.settings, module.drift
    if not isinstance(drift, GraphFilterDrift | GraphHeatDrift) or drift.coefficients() is None:
        return f"drift '{s.drift.name}' with these options is not a linear filter"
    if drift.learns_rate or getattr(drift, "learned_source", None) is not None:
        return f"the coefficients of drift '{s.drift.name}' are learned"
    if s.solver.name != "euler" or s.steps != s.horizon:
        return "the solver does not take Euler steps of length one"
    if not module.by_node or s.encoder == "gcn":
        return "the encoder or the decoder does not act on each node alone"
    if module.noisy and s.noise_by != "marginals":
        return "noise is simulated along joint paths of all nodes (noise_by)"
    return "the path KL is a sum over all nodes (kl_weight)" if s.kl_weight > 0 else None


def batch_learner(module: LGNSDEModule) -> type[LGNSDELearner]:
    """Batches of nodes if the solution operator is known and clusters are not requested; otherwise clusters."""
    s, reason = module.settings, why_no_rows(module)
    if s.objective == "importance":
        raise BadUsage(
            "the importance-weighted bound needs all training nodes together and can't be trained in batches",
            code="E-SETTING",
            fix="set objective=elbo or mixture, or way=full or partitioned",
        )
    if s.neighbours is not None and (reason is not None or s.parts is not None):
        why = reason or "parts are set, which are for clusters"
        raise BadUsage(
            f"batches of neighbours are not possible: {why}",
            code="E-SETTING",
            expected="drift 'graph-filter' or 'graph-heat' with fixed coefficients and no rest, Euler steps of length "
            "one, an encoder and a decoder that act on each node alone, noise_by=marginals or no noise, no KL",
            fix="leave out neighbours: training then uses clusters of the graph"
            if reason
            else "leave out parts or neighbours",
        )
    return NodeBatchLearner if reason is None and s.parts is None else ClusterLearner


def filters_of(module: LGNSDEModule, adjacency: Adjacency) -> list[ChannelFilter]:
    """The distinct filters of the drift's channels."""
    drift, steps = module.drift, module.settings.steps
    kappas = drift.coefficients()
    assert kappas is not None and isinstance(drift, GraphFilterDrift | GraphHeatDrift)
    found = []
    for kappa in kappas.unique().tolist():
        channels = torch.nonzero(kappas == kappa)[:, 0]
        if isinstance(drift, GraphHeatDrift):
            source = drift.source
            assert isinstance(source, float)
            smoothing = smoothing_scale(adjacency.operator) if drift.source_operator == "smoothing" else 0.0
            found.append(ChannelFilter(LinearFilter(kappa, source, steps, smoothing), channels))
        else:
            found.append(ChannelFilter(LinearFilter(kappa, 1.0 - abs(kappa), steps), channels))
    return found


def filtered(
    filters: list[ChannelFilter], parts: list[SparseMatrix], initial: Tensor, rests: list[Tensor], beyond: Tensor
) -> Tensor:
    """Π H(0) for some rows, every channel by its own operator, and what each row adds of the background.

    # [u, S, d], [n] each, [S, d] -> [n, S, d]
    """
    pieces = []
    for one, matrix, rest in zip(filters, parts, rests, strict=True):
        every = len(filters) == 1
        own = initial if every else initial[:, :, one.channels.to(initial.device)]
        far = beyond if every else beyond[:, one.channels.to(initial.device)]
        made = matrix.to(initial.dtype).on(initial.device) @ own.reshape(own.shape[0], -1)
        pieces.append(made.view(matrix.shape[0], *own.shape[1:]) + rest[:, None, None] * far)
    if len(pieces) == 1:
        return pieces[0]
    order = torch.cat([one.channels for one in filters]).argsort().to(initial.device)
    return torch.cat(pieces, dim=2)[:, :, order]


def rows_of_features(encoder: FeatureEncoder, graph: Graph, rows: np.ndarray) -> Features:
    """Encoded features of some nodes; reads no others."""
    view = replace(
        graph,
        features=graph.features[rows],
        categorical={name: column[rows] for name, column in graph.categorical.items()},
    )
    found: Features = encode(encoder, view)
    return found


def nothing(width: int) -> Inputs:
    """Inputs without nodes, for a module that must not use the graph."""
    return Inputs(torch.empty(0, width), SparseMatrix.from_scipy(sp.csr_array((0, 0), dtype=np.float32)))


class NodeBatchLearner(LGNSDELearner):
    """Every step uses some training nodes, and the nodes in their rows of the solution operator.

    The consistency loss uses as many other nodes as there are training nodes in the batch (at least 256), drawn
    for every step from 2,048 that are drawn once; validation nodes of the batch set the confidence threshold.
    """

    def __init__(self, model: NeuralModel, module: LGNSDEModule, encoder: FeatureEncoder, graph: Graph) -> None:
        self.graph = graph
        super().__init__(model, module, encoder, graph)
        s = self.settings
        self.whole: Inputs | None = None
        self.size = s.batch or BATCH
        if len(self.val) > MOST_VALIDATED:
            some = torch.from_numpy(_some(len(self.val), MOST_VALIDATED, s.seed, "validation")).to(self.device)
            self.val, self.val_labels, self.validated = self.val[some], self.val_labels[some], MOST_VALIDATED
        self.used = _some(len(self.train), MOST_TRAINED, s.seed, "training")
        self.pool = self._pool() if s.consistency.kind != "none" and s.consistency.weight > 0 else np.zeros(0, np.int64)
        train, val = self.train.cpu().numpy()[self.used], self.val.cpu().numpy()
        self.nodes = np.unique(np.concatenate([train, val, self.pool]))
        self.filters = filters_of(module, graph.adjacency)
        self.rows = [
            solution_rows(graph.adjacency.normalized, one.filter, self.nodes, neighbours=s.neighbours or NEIGHBOURS)
            for one in self.filters
        ]
        self.far, self.far_weights = background_sample(graph.adjacency.normalized, MOST_BACKGROUND, s.seed)
        self.at_train, self.at_val, self.at_pool = (
            np.searchsorted(self.nodes, some) for some in (train, val, self.pool)
        )
        # the noise at a node and on average does not depend on learned parameters
        self.deviation: Tensor | None = None
        if module.noisy:
            everywhere = module.unit_deviation(Inputs(torch.empty(0), graph.adjacency.operator.on(self.device)))
            self.deviation = everywhere[torch.from_numpy(self.nodes).to(self.device)]
            self.unit_level = float(everywhere.square().mean().sqrt())

    def inputs_of(self, graph: Graph) -> Inputs:
        return nothing(self.encoder.width)

    def notes(self) -> list[str]:
        dropped = np.mean([rows.dropped.mean() for rows in self.rows])
        kept = max(int(np.diff(rows.indptr).max(initial=0)) for rows in self.rows)
        told = [
            f"batches of {min(self.size, len(self.used))} training nodes, each with at most {kept} neighbours: "
            f"{dropped:.0%} of the mass of a row is dropped on average"
        ]
        if len(self.used) < len(self.train):
            told.append(f"{len(self.used):,} of {len(self.train):,} training nodes are used, drawn for the seed")
        return told

    def loss(self, epoch: int) -> Tensor:
        """Of all training nodes as one batch."""
        return self._loss(epoch, 0, np.arange(len(self.used)))

    def losses(self, epoch: int) -> Iterator[Tensor]:
        in_all = math.ceil(len(self.used) / self.size)
        count = min(in_all, MOST_STEPS)
        for step in range(count):
            around, place = divmod((epoch - 1) * count + step, in_all)
            order = np.arange(len(self.used))
            if in_all > 1:
                order = numpy_stream(self.settings.seed, "node batches", around).permutation(len(order))
            yield self._loss(epoch, step, np.array_split(order, in_all)[place])

    def _loss(self, epoch: int, step: int, batch: np.ndarray) -> Tensor:
        s = self.settings
        self.module.train()
        agree = len(self.pool) > 0 and epoch >= s.consistency.begin
        positions, others, judges = self.at_train[batch], 0, 0
        if agree:
            asked, judging = self._others(epoch, step, len(batch))
            others, judges = len(asked), len(judging)
            positions = np.concatenate([positions, asked, judging])
        noise = self._paths(epoch)
        far = numpy_stream(s.seed, "background of a step", epoch, step).choice(len(self.far), BACKGROUND, replace=False)
        mean, initial = self._solved(positions, len(noise.paths), self.masks, far)
        self._learn_signal(mean.detach())
        logits = self._decoded(mean, initial, positions, noise, self.masks)
        chosen = torch.from_numpy(self.used[batch]).to(self.device)
        loss = path_likelihood(logits[: len(batch)], self.train_labels[chosen], s.objective, self.likelihood)
        if agree:
            weight = s.consistency.weight * ramp(epoch, s.consistency.warmup)
            if s.consistency.gated:
                weight *= max(0.0, 1.0 - float(loss.detach()) / math.log(logits.shape[-1]))
            share = logits.new_zeros(others + judges)
            share[:others] = (others + judges) / others
            if self.resemblance is not None:
                share[:others] *= self.resemblance[torch.from_numpy(self.nodes[asked]).to(self.device)]
            validation = torch.arange(others, others + judges, device=self.device)
            loss = loss + weight * consistency(logits[len(batch) :], s.consistency, validation, share)
        return loss

    def _pool(self) -> np.ndarray:
        """Nodes without a training label, drawn once for the seed."""
        stream = numpy_stream(self.settings.seed, "nodes asked to agree")
        drawn = stream.choice(self.num_nodes, min(self.num_nodes, POOL + len(self.train)), replace=False)
        return np.sort(np.setdiff1d(drawn, self.train.cpu().numpy())[:POOL] if len(drawn) > POOL else drawn)

    def _others(self, epoch: int, step: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions of nodes for the consistency loss, and of those that set the confidence threshold."""
        stream = numpy_stream(self.settings.seed, "nodes of a step", epoch, step)
        asked = stream.choice(self.at_pool, min(len(self.pool), max(count, FEWEST_OTHERS)), replace=False)
        known = self.at_val if len(self.at_val) else self.at_train
        return asked, stream.choice(known, min(len(known), MOST_JUDGES), replace=False)

    def _solved(
        self, positions: np.ndarray, paths: int, masks: MaskStream | None, far: np.ndarray
    ) -> tuple[Tensor, Tensor]:
        """H(T) without noise, and H(0) if the decoder reads it; ``far`` are places among the background nodes.

        # [n, S, d], [n, S, d] or [0, S, d]
        """
        taken = [rows.take(positions) for rows in self.rows]
        own = self.nodes[positions] if self.settings.ego else np.zeros(0, np.int64)
        asked = [*(columns for _, columns, _ in taken), own, self.far[far]]
        union, where = np.unique(np.concatenate(asked), return_inverse=True)
        inputs = replace(self.inputs, features=self._features(union))
        initial = self.module.initial(inputs, paths, masks)
        parts, begin = [], 0
        for start, columns, values in taken:
            local = where[begin : begin + len(columns)]
            begin += len(columns)
            parts.append(_local(start, local, values, len(union)))
        at = torch.from_numpy(where[begin:]).to(self.device)
        weights = torch.from_numpy(self.far_weights[far]).to(initial)
        beyond = (initial[at[len(own) :]] * weights[:, None, None]).mean(0)
        rests = [torch.from_numpy(rows.rest[positions]).to(initial) for rows in self.rows]
        return filtered(self.filters, parts, initial, rests, beyond), initial[at[: len(own)]]

    def _features(self, rows: np.ndarray) -> Features:
        return features_on(self.device, rows_of_features(self.encoder, self.graph, rows))

    def _decoded(
        self, mean: Tensor, initial: Tensor, positions: np.ndarray, noise: Noise, masks: MaskStream | None
    ) -> Tensor:
        """Logits, with the noise of each node drawn from its exact law.  # [n, S, C]"""
        state = mean
        if self.deviation is not None:
            at = torch.from_numpy(positions).to(self.device)
            keys = self.keys[torch.from_numpy(self.nodes[positions]).to(self.device)]
            drawn = BrownianMotion(noise.seed, keys, noise.paths, self.module.width, 1.0, 1, mean.dtype)
            state = mean + self.module._amount() * self.deviation[at][:, None] * drawn.cell_increment(0)
        return self.module.decode(self.inputs, self.module.beside(state, initial), masks)

    def _learn_signal(self, mean: Tensor) -> None:
        """Like the module on the whole graph, from the nodes of the batch."""
        s, module = self.settings, self.module
        if not module.noisy or s.sigma_is != "ratio":
            return
        first, level = bool(module.signal == 0), signal_level(mean)
        if s.signal == "training" and not first:
            level = SIGNAL_MOMENTUM * module.signal + (1 - SIGNAL_MOMENTUM) * level
        if first or s.signal == "training":
            self._set_signal(level)

    def _set_signal(self, level: Tensor) -> None:
        self.module.signal.copy_(level)
        self.module.gain.copy_(self.settings.sigma * level / self.unit_level)

    def validation_logits(self) -> Tensor:
        """By rows in training; by the whole graph after training, unless predictions use rows too."""
        if self.whole is not None:
            return super().validation_logits()
        self.module.eval()
        count = self.settings.validation_paths if self.module.noisy else 1
        noise = Noise(derive(self.settings.seed, "validation paths"), self.keys, range(count))
        with torch.no_grad():
            mean, initial = self._solved_still(self.at_val)
            if self.module.noisy and self.settings.sigma_is == "ratio" and self.settings.signal == "prediction":
                self._set_signal(signal_level(mean))
            return self._decoded(mean, initial, self.at_val, noise, None)

    def _solved_still(self, positions: np.ndarray) -> tuple[Tensor, Tensor]:
        """:meth:`_solved` without dropout, piece by piece, always with the same background."""
        pieces = np.array_split(positions, max(1, math.ceil(len(positions) / self.size)))
        solved = [self._solved(some, 1, None, np.arange(2 * BACKGROUND)) for some in pieces]
        return torch.cat([one[0] for one in solved]), torch.cat([one[1] for one in solved])

    def measure_signal(self) -> None:
        """The first step after training."""
        if self.settings.predict_by != "rows":
            self.inputs = self.whole = super().inputs_of(self.graph)
            super().measure_signal()
        elif self.module.noisy and self.settings.sigma_is == "ratio" and self.settings.signal == "prediction":
            self.module.eval()
            with torch.no_grad():
                known = self.at_val if len(self.at_val) else self.at_train
                self._set_signal(signal_level(self._solved_still(known)[0]))

    def state_posterior(self) -> StatePosterior | None:
        return None if self.whole is None else super().state_posterior()


def _some(count: int, most: int, seed: int, role: str) -> np.ndarray:
    """All positions up to ``count``, or ``most`` of them, ascending.  # int64"""
    if count <= most:
        return np.arange(count)
    return np.sort(numpy_stream(seed, "nodes with rows", role).choice(count, most, replace=False))


def _local(start: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int) -> SparseMatrix:
    crow, col = torch.from_numpy(start.astype(np.int64)), torch.from_numpy(columns.astype(np.int64))
    return SparseMatrix(crow, col, torch.from_numpy(np.array(values)), (len(start) - 1, width))


def solved_by_rows(
    module: LGNSDEModule, inputs: Inputs, adjacency: Adjacency, settings: LGNSDESettings
) -> tuple[Tensor, Tensor]:
    """H(0) and H(T) of all nodes, by approximate rows that are computed block by block and not kept.

    # [N, 1, d] each
    """
    initial = module.initial(inputs, 1, None)
    final = torch.empty_like(initial)
    filters, operator = filters_of(module, adjacency), adjacency.normalized
    roots = torch.from_numpy(degree_roots(operator)).to(initial)
    beyond = torch.einsum("n,nsd->sd", roots, initial) / roots.square().sum()
    size = BLOCK_OF_NODES
    for first in range(0, len(initial), size):
        nodes = np.arange(first, min(first + size, len(initial)))
        rows = [
            solution_rows(operator, one.filter, nodes, neighbours=settings.neighbours or NEIGHBOURS) for one in filters
        ]
        parts = [_local(one.indptr, one.indices, one.values, one.size) for one in rows]
        rests = [torch.from_numpy(one.rest).to(initial) for one in rows]
        final[first : first + size] = filtered(filters, parts, initial, rests, beyond)
    return initial, final


class ClusterLearner(LGNSDELearner):
    """Every step uses the clusters of one group; what follows training uses the whole graph.

    Epochs are validated on the whole graph too, or group by group if that would need too much memory.
    """

    def __init__(self, model: NeuralModel, module: LGNSDEModule, encoder: FeatureEncoder, graph: Graph) -> None:
        super().__init__(model, module, encoder, graph)
        s, nodes = self.settings, graph.num_nodes
        batch = min(s.batch or CLUSTERED_BATCH, nodes)
        parts = min(s.parts or max(FEWEST_CLUSTERS, math.ceil(CLUSTERS_A_STEP * nodes / batch)), nodes)
        # the seed is for training, not for the clusters: members of a race share them
        cluster = partition(graph.adjacency, parts)
        order = np.argsort(cluster, kind="stable")
        self.members = np.split(order, np.searchsorted(cluster[order], np.arange(1, parts)))
        self.together = max(1, round(batch * parts / nodes))
        self.operator = graph.adjacency.normalized
        self.roots = degree_roots(self.operator)
        role = np.full(nodes, -1, dtype=np.int64)
        role[self.train.cpu().numpy()] = np.arange(len(self.train))
        self.place_in_train, self.is_val = role, np.zeros(nodes, dtype=bool)
        self.is_val[self.val.cpu().numpy()] = True
        self.over = False

    def measure_signal(self) -> None:
        """The first step after training."""
        self.over = True
        super().measure_signal()

    def _own_validation_logits(self) -> Tensor:
        paths = self.settings.validation_paths if self.module.noisy else 1
        if self.over or self.num_nodes * paths * self.module.width <= VALIDATED_AT_ONCE:
            return super()._own_validation_logits()
        places, found = [], []
        for nodes in self._groups(np.arange(len(self.members))):
            if self.is_val[nodes].any():
                places.append(np.searchsorted(self.val.cpu().numpy(), nodes[self.is_val[nodes]]))
                found.append(LGNSDELearner._own_validation_logits(self.among(nodes)))
        return torch.cat(found)[torch.from_numpy(np.argsort(np.concatenate(places))).to(self.device)]

    def _groups(self, order: np.ndarray) -> list[np.ndarray]:
        """Nodes of the clusters that are used together, ascending."""
        groups = np.array_split(order, math.ceil(len(order) / self.together))
        return [np.sort(np.concatenate([self.members[one] for one in some])) for some in groups]

    def notes(self) -> list[str]:
        groups = math.ceil(len(self.members) / self.together)
        return [
            f"{len(self.members)} clusters, {min(self.together, len(self.members))} a step, "
            f"{groups} step{'s' if groups > 1 else ''} an epoch; edges that leave a step's clusters are ignored in it"
        ]

    def losses(self, epoch: int) -> Iterator[Tensor]:
        order = numpy_stream(self.settings.seed, "groups of clusters", epoch).permutation(len(self.members))
        for nodes in self._groups(order):
            if (self.place_in_train[nodes] >= 0).any():
                yield self.among(nodes).loss(epoch)

    def among(self, nodes: np.ndarray) -> LGNSDELearner:
        """This learner restricted to these nodes (ascending positions) and their edges."""
        part = copy.copy(self)
        at = torch.from_numpy(nodes).to(self.device)
        operator = _renormalised(_among(self.operator, nodes), self.roots[nodes])
        symmetric = self.inputs.adjacency.symmetric
        part.inputs = Inputs(
            rows_of(self.inputs.features, at), SparseMatrix.from_scipy(operator, symmetric=symmetric).on(self.device)
        )
        place = self.place_in_train[nodes]
        part.train = torch.from_numpy(np.flatnonzero(place >= 0)).to(self.device)
        part.train_labels = self.train_labels[torch.from_numpy(place[place >= 0]).to(self.device)]
        part.val = torch.from_numpy(np.flatnonzero(self.is_val[nodes])).to(self.device)
        part.validated, part.num_trained = len(part.val), len(part.train)
        part.keys, part.num_nodes = self.keys[at], len(nodes)
        part.resemblance = None if self.resemblance is None else self.resemblance[at]
        return part


def _renormalised(among: sp.csr_array, roots: np.ndarray) -> sp.csr_array:
    """Entries a_ij / √(d_i d_j) with degrees among these nodes in place of those in the whole graph.

    Args:
        among: the operator's entries among some nodes.
        roots: √d of these nodes in the whole graph.
    """
    kept = np.sqrt((among @ roots) / roots)
    rows = np.repeat(kept, np.diff(among.indptr))
    scaled = (among.data / (rows * kept[among.indices])).astype(among.dtype)
    return sp.csr_array((scaled, among.indices, among.indptr), shape=among.shape)


def _among(operator: sp.csr_array, nodes: np.ndarray) -> sp.csr_array:
    """The entries among some nodes, with their values in the whole; reads only the rows of these nodes."""
    own = operator[nodes]
    place = np.minimum(np.searchsorted(nodes, own.indices), len(nodes) - 1)
    inside = nodes[place] == own.indices
    start = np.concatenate([[0], np.cumsum(inside)])[own.indptr]
    return sp.csr_array((own.data[inside], place[inside], start), shape=(len(nodes), len(nodes)))


def rows_of(features: Features, rows: Tensor) -> Features:
    """Some rows of features, dense or sparse.  # [n, F]"""
    if isinstance(features, Tensor):
        return features[rows]
    begin = features.crow[rows]
    lengths = features.crow[rows + 1] - begin
    crow = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    entries = torch.repeat_interleave(begin - crow[:-1], lengths) + torch.arange(int(crow[-1]), device=rows.device)
    return SparseMatrix(crow, features.col[entries], features.values[entries], (len(rows), features.shape[1]))
