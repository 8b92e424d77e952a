r"""Rows of the solution operator of a linear graph equation: which initial states make up a node's final state.

Euler steps of length one of a linear filter, :math:`H_{k+1} = \kappa \hat A H_k + b S H_0`, end in
:math:`H_K = \Pi H_0` with a polynomial Π of Â. Row i of Π says which nodes' initial states make up that of node i, so
that the rows of some nodes replace the rest of the graph (Bojchevski et al., "Scaling graph neural
networks with approximate PageRank", KDD 2020). A row is computed from its own node, by a walk
:math:`w_k = \kappa^k e_i \hat A^k` that starts at the node and spreads,
:math:`\Pi_i = b \sum_{k<K} w_k S + w_K`; small entries are dropped on the way (as in Andersen, Chung and Lang, FOCS
2006), and the heaviest entries of the result are kept.

**The error.** With D the degrees, :math:`\hat A = D^{1/2} P D^{-1/2}` and P stochastic. Measure the entry (i, j) of a
row by its *mass* :math:`|r_j| \sqrt{d_j / d_i}`: a step multiplies the mass of a walk by at most |κ|. So what is
dropped after step k is missing at the end with at most the mass that a walk of K − k steps leaves, which is 1 for
b = 1 − |κ|. The sum of that is :math:`\delta_i`, and for all states, in the norm
:math:`\|H\|_D = \max_j \|H_j\| / \sqrt{d_j}`,

.. math:: \|(\tilde\Pi H - \Pi H)_i\| / \sqrt{d_i} \le \delta_i \|H\|_D .

***The rest.** Dropped entries are far away, where a walk forgets its start: their mass is replaced by its limit, the
stationary distribution π ∝ d. That is one vector for all nodes, :math:`h = \sum_j \pi_j H_j / \sqrt{d_j}`, the same
whatever the row, and a sample of nodes is enough to know it. Node i gets :math:`\rho_i \sqrt{d_i}\, h`, with ρ the
(signed) mass that its row lacks; then rows act on :math:`\sqrt d` as Π does. The bound becomes
:math:`(\delta_i + |\rho_i|) \|H\|_D`, at most twice what it was; the measured error falls, most of all on dense graphs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from graphsde.base.arguments import number, whole
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.seeds import numpy_stream
from graphsde.graph.sparse import SparseMatrix

DENSE_ENTRIES = 600_000
"""Up to this many operator entries, rows are computed exactly, by dense blocks; on larger ones they stay sparse."""
SMALLEST_SHARE = 0.1
"""Of 1/neighbours: mass below which an entry is dropped on the way, where rows are sparse."""
_DENSE_FLOATS = 1 << 22  # of one dense block
_MOST_COLUMNS = 256
_SPARSE_ROWS = 512
_SPARSE_ENTRIES = 1 << 23  # of one sparse block, before what is small is dropped
_FILES = ("indptr", "indices", "values", "nodes", "dropped", "rest")


@dataclass(frozen=True)
class LinearFilter:
    """H ← κÂH + bSH(0), ``steps`` times.

    Args:
        kappa: κ.
        source: b.
        steps: K.
        smoothing: s of the source S = sÂ; S = I if it is 0.
    """

    kappa: float
    source: float
    steps: int
    smoothing: float = 0.0

    @property
    def mass(self) -> float:
        """Upper bound on the mass of a whole row; exact if no entry is negative."""
        added, total = abs(self.source * (self.smoothing or 1.0)), 1.0
        for _ in range(self.steps):
            total = abs(self.kappa) * total + added
        return total

    @property
    def sum(self) -> float:
        """Of a whole row, each entry with its sign and in units of mass: the polynomial at 1."""
        added, total = self.source * (self.smoothing or 1.0), 1.0
        for _ in range(self.steps):
            total = self.kappa * total + added
        return total


@dataclass(frozen=True, eq=False)
class SolutionRows:
    """The heaviest entries of some rows of Π, as CSR arrays that may be in files.

    Args:
        nodes: whose rows they are, ascending.  # [n] int64
        indptr: where each row begins.  # [n + 1] int64
        indices: column positions of the entries.  # [nnz] int32
        values: of the entries.  # [nnz] float32
        dropped: δ, upper bound on the missing mass of a row.  # [n] float64
        rest: ρ√d, what every row adds of the background h.  # [n] float64
        size: N of the graph.
    """

    nodes: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    dropped: np.ndarray
    rest: np.ndarray
    size: int

    def positions(self, nodes: np.ndarray) -> np.ndarray:
        """Where the rows of ``nodes`` are among these.  # [m] int64"""
        found = np.searchsorted(self.nodes, nodes)
        if not np.array_equal(self.nodes[np.minimum(found, len(self.nodes) - 1)], nodes):
            raise BadUsage("some of these nodes have no row", fix="call solution_rows for all nodes needed")
        return found

    def take(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start, columns and values of some rows in the order given; reads no other row."""
        begin = self.indptr[positions]
        lengths = self.indptr[positions + 1] - begin
        start = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(begin - start[:-1], lengths) + np.arange(start[-1])
        return start, self.indices[entries], self.values[entries]

    def matrix(self) -> sp.csr_array:
        """All of them.  # [n, N]"""
        return sp.csr_array((self.values, self.indices, self.indptr), shape=(len(self.nodes), self.size))

    def save(self, folder: Path) -> None:
        """As plain arrays, one file each."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            np.save(folder / f"{name}.npy", getattr(self, name), allow_pickle=False)
        np.save(folder / "size.npy", np.array(self.size), allow_pickle=False)

    @classmethod
    def open(cls, folder: Path) -> SolutionRows:
        """From :meth:`save`; the arrays stay in their files and are read on demand."""
        try:
            arrays = [np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _FILES]
            size = int(np.load(folder / "size.npy", allow_pickle=False))
        except (OSError, ValueError) as error:
            raise BadInput("no solution rows found", place=str(folder), code="E-CORRUPT") from error
        indptr, indices, values, nodes, dropped, rest = arrays
        return cls(nodes, indptr, indices, values, dropped, rest, size)


Block = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Lengths, columns, values, dropped mass and rest of consecutive rows."""
Work = Callable[[sp.csr_array, np.ndarray], Block]
BlockMap = Callable[[Work, sp.csr_array, Sequence[np.ndarray]], Iterable[Block]]
"""Runs work for every block of nodes, in order, on any machine or process."""


def one_after_another(work: Work, operator: sp.csr_array, blocks: Sequence[np.ndarray]) -> Iterator[Block]:
    return (work(operator, block) for block in blocks)


def in_processes(workers: int) -> BlockMap:
    """Blocks over several processes of this machine, which share the operator through files."""
    whole(workers, "workers", at_least=1)

    def over(work: Work, operator: sp.csr_array, blocks: Sequence[np.ndarray]) -> Iterator[Block]:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        with tempfile.TemporaryDirectory() as folder:
            for name in ("data", "indices", "indptr"):
                np.save(Path(folder) / f"{name}.npy", getattr(operator, name), allow_pickle=False)
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                yield from pool.map(partial(_from_files, work, folder), blocks)

    return over


def in_ray() -> BlockMap:
    """Blocks over the workers of the Ray cluster that this process is connected to (``ray.init``)."""

    def over(work: Work, operator: sp.csr_array, blocks: Sequence[np.ndarray]) -> Iterator[Block]:
        import ray

        if not ray.is_initialized():
            raise BadUsage("this process is not connected to a Ray cluster", fix="call ray.init, or leave Ray out")
        far, shared = ray.remote(_of_arrays), ray.put((operator.data, operator.indices, operator.indptr))
        for waiting in [far.remote(work, shared, block) for block in blocks]:
            yield ray.get(waiting)

    return over


def _from_files(work: Work, folder: str, block: np.ndarray) -> Block:
    arrays = tuple(np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr"))
    return _of_arrays(work, arrays, block)


def _of_arrays(work: Work, arrays: tuple[np.ndarray, ...], block: np.ndarray) -> Block:
    size = len(arrays[2]) - 1
    return work(sp.csr_array(arrays, shape=(size, size)), block)


_OVER: ContextVar[BlockMap] = ContextVar("blocks of rows", default=one_after_another)


@contextmanager
def rows_made(over: BlockMap) -> Iterator[None]:
    """Inside, rows are computed by ``over`` (:func:`in_processes`, :func:`in_ray`); the result is always the same."""
    token = _OVER.set(over)
    try:
        yield
    finally:
        _OVER.reset(token)


def solution_rows(
    operator: sp.csr_array,
    wanted: LinearFilter,
    nodes: np.ndarray,
    *,
    neighbours: int | None = 64,
    threshold: float | None = None,
) -> SolutionRows:
    """Rows of Π for some nodes, the heaviest entries of each.

    Args:
        operator: Â with unit self loops, float32, such as ``graph.adjacency.normalized``.
        wanted: the filter.
        nodes: positions, ascending.  # [n]
        neighbours: maximum entries kept per row; all if ``None``.
        threshold: mass below which an entry is dropped on the way. By default none on operators of few entries, and a
            tenth of 1/``neighbours`` on others; then a walk has at most 1/``threshold`` entries after
            every step, whatever the size of the graph.

    Example:
        >>> import numpy as np
        >>> from graphsde.datasets.benchmarks import load
        >>> operator = load("digits").adjacency.normalized
        >>> rows = solution_rows(operator, LinearFilter(0.9, 0.1, 10), np.arange(5), neighbours=16)
        >>> rows.matrix().shape, np.diff(rows.indptr).tolist()
        ((5, 1797), [16, 16, 16, 16, 16])
    """
    nodes = np.asarray(nodes, dtype=np.int64)
    if len(nodes) and (nodes[0] < 0 or nodes[-1] >= operator.shape[0] or bool((np.diff(nodes) <= 0).any())):
        raise BadUsage("positions of nodes must be ascending", expected=f"from 0 to {operator.shape[0] - 1}")
    if neighbours is not None:
        whole(neighbours, "neighbours", at_least=1)
    dense = operator.nnz <= DENSE_ENTRIES if threshold is None else False
    if threshold is None:
        threshold = 0.0 if neighbours is None else SMALLEST_SHARE / neighbours
    number(threshold, "threshold", at_least=0.0, below=1.0)
    if dense:
        columns = max(8, min(_MOST_COLUMNS, _DENSE_FLOATS // max(1, operator.shape[0])))
    else:
        entries = operator.nnz / max(1, operator.shape[0]) * min(wanted.mass / max(threshold, 1e-9), operator.shape[0])
        columns = int(max(8, min(_SPARSE_ROWS, _SPARSE_ENTRIES // max(1.0, entries))))
    blocks = [nodes[first : first + columns] for first in range(0, len(nodes), columns)]
    work = partial(_dense_rows if dense else _sparse_rows, wanted, neighbours, threshold)
    parts = list(_OVER.get()(work, operator, blocks))
    lengths, indices, values, dropped, rest = (
        np.concatenate([part[one] for part in parts]) if parts else np.zeros(0, kind)
        for one, kind in enumerate((np.int64, np.int32, np.float32, np.float64, np.float64))
    )
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return SolutionRows(nodes, indptr, indices, values, dropped, rest, int(operator.shape[0]))


def _sparse_rows(
    wanted: LinearFilter, neighbours: int | None, threshold: float, operator: sp.csr_array, nodes: np.ndarray
) -> Block:
    """A walk κᵏ e_i Âᵏ whose steps are summed up; it ends when all of it has become small."""
    count, size = len(nodes), operator.shape[0]
    root = degree_roots(operator)
    one = sp.csr_array(
        (np.ones(count, np.float32), nodes.astype(np.int32), np.arange(count + 1, dtype=np.int32)), shape=(count, size)
    )
    walk, heard, dropped = one, one * np.float32(0.0), np.zeros(count)
    for step in range(wanted.steps):
        heard = heard + walk * np.float32(wanted.source)
        walk = sp.csr_array(walk @ operator) * np.float32(wanted.kappa)
        walk, lost = _without(walk, _mass(walk, nodes, root) <= threshold, nodes, root)
        dropped += lost * replace(wanted, steps=wanted.steps - step - 1).mass
        if not walk.nnz:
            break
    if wanted.smoothing:
        heard = sp.csr_array(heard @ operator) * np.float32(wanted.smoothing)
    rows = sp.csr_array(heard + walk)
    rows, lost = _without(rows, ~_heaviest(rows, neighbours), nodes, root)
    rows.sort_indices()
    lengths = np.diff(rows.indptr).astype(np.int64)
    kept = np.bincount(np.repeat(np.arange(count), lengths), rows.data * root[rows.indices], minlength=count)
    rest = wanted.sum * root[nodes] - kept
    return lengths, rows.indices.astype(np.int32), rows.data, dropped + lost, rest


def _dense_rows(
    wanted: LinearFilter, neighbours: int | None, threshold: float, operator: sp.csr_array, nodes: np.ndarray
) -> Block:
    """The same without dropping anything on the way: columns of Πᵀ, one product with a dense block per step."""
    size, root = operator.shape[0], degree_roots(operator)
    turned = SparseMatrix.from_scipy(sp.csr_array(operator.T))
    one = torch.zeros(size, len(nodes))
    one[torch.from_numpy(nodes), torch.arange(len(nodes))] = 1.0
    source = (turned.times(one) * wanted.smoothing if wanted.smoothing else one) * wanted.source
    rows = one
    for _ in range(wanted.steps):
        rows = source if wanted.kappa == 0.0 else turned.times(rows).mul_(wanted.kappa).add_(source)
    found = rows.T.contiguous()  # [n, N]
    kept = min(size, size if neighbours is None else neighbours)
    columns = found.abs().topk(kept, dim=1).indices.sort(dim=1).values
    values = found.gather(1, columns)
    mass = torch.from_numpy(root)
    total = found.abs().double() @ mass
    left = (values.abs().double() * mass[columns]).sum(1)
    dropped = ((total - left) / mass[torch.from_numpy(nodes)]).clamp_min(0.0)
    rest = wanted.sum * root[nodes] - (values.double() * mass[columns]).sum(1).numpy()
    stored = values != 0
    indices = columns[stored].numpy().astype(np.int32)
    return stored.sum(1).numpy(), indices, values[stored].numpy(), dropped.numpy(), rest


def degree_roots(operator: sp.csr_array) -> np.ndarray:
    """√d: with unit self loops the diagonal is 1/d.  # [N]"""
    diagonal = operator.diagonal().astype(np.float64)
    if not bool((diagonal > 0).all()):
        raise BadUsage(
            "the operator has no positive diagonal to read degrees from",
            code="E-SELF-LOOP",
            fix="use graph.adjacency.normalized",
        )
    return 1.0 / np.sqrt(diagonal)


def background(operator: sp.csr_array, states: np.ndarray) -> np.ndarray:
    """h = Σ_j π_j H_j / √d_j of all nodes.  # [N, d] -> [d]"""
    root = degree_roots(operator)
    return np.asarray(root @ states / np.square(root).sum())


def background_sample(operator: sp.csr_array, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes drawn from π, and 1/√d of each: the mean of H_j / √d_j over them is h on average.  # [m], [m]"""
    root = degree_roots(operator)
    upto = np.cumsum(np.square(root))
    drawn = numpy_stream(seed, "background nodes").random(count) * upto[-1]
    nodes = np.minimum(np.searchsorted(upto, drawn, side="right"), len(root) - 1)
    return nodes, 1.0 / root[nodes]


def _mass(rows: sp.csr_array, nodes: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Of every stored entry.  # [nnz]"""
    return np.abs(rows.data) * root[rows.indices] / np.repeat(root[nodes], np.diff(rows.indptr))


def _without(
    rows: sp.csr_array, drop: np.ndarray, nodes: np.ndarray, root: np.ndarray
) -> tuple[sp.csr_array, np.ndarray]:
    """Rows without some of their entries, and the mass that each loses."""
    owner = np.repeat(np.arange(len(nodes)), np.diff(rows.indptr))
    lost = np.bincount(owner[drop], weights=_mass(rows, nodes, root)[drop], minlength=len(nodes))
    keep = ~drop
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner[keep], minlength=len(nodes)))]).astype(rows.indptr.dtype)
    return sp.csr_array((rows.data[keep], rows.indices[keep], indptr), shape=rows.shape), lost


def _heaviest(rows: sp.csr_array, count: int | None) -> np.ndarray:
    """Which entries are among the heaviest of their row; ties go to the first columns.  # [nnz] bool"""
    if count is None:
        return np.ones(rows.nnz, dtype=bool)
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, -np.abs(rows.data), owner))
    rank = np.arange(rows.nnz) - rows.indptr[owner]
    keep = np.zeros(rows.nnz, dtype=bool)
    keep[order[rank < count]] = True
    return keep


def measured_error(
    operator: sp.csr_array,
    wanted: LinearFilter,
    rows: SolutionRows,
    states: np.ndarray,
    *,
    sample: int = 64,
    seed: int = 0,
) -> float:
    """‖Π̃H − ΠH‖ / ‖ΠH‖ on a random sample of the rows, which are recomputed with nothing dropped.

    Args:
        operator, wanted: what ``rows`` are of.
        rows: to evaluate.
        states: H.  # [N, d]
        sample: how many rows.
        seed: of the sample.
    """
    count = min(sample, len(rows.nodes))
    chosen = np.sort(numpy_stream(seed, "sample of solution rows").choice(len(rows.nodes), count, replace=False))
    exact = np.zeros((0, states.shape[1]))
    for block in np.array_split(rows.nodes[chosen], max(1, count // 8)):  # few: on a large graph exact rows are dense
        one = solution_rows(operator, wanted, block, neighbours=None, threshold=0.0)
        exact = np.concatenate([exact, one.matrix() @ states])
    start, columns, values = rows.take(chosen)
    ours = sp.csr_array((values, columns, start), shape=(count, rows.size)) @ states
    ours = ours + rows.rest[chosen][:, None] * background(operator, states)
    size = float(np.linalg.norm(exact))
    return float(np.linalg.norm(ours - exact)) / size if size > 0 else 0.0
