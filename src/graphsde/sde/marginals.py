r"""Exact marginals of a linear graph SDE: the law of a node's state without simulation.

The equation :math:`dH = [(\kappa \hat A - I) H + (1 - |\kappa|) H(0)]\,dt + g D\,dW` in Euler steps of length one is

.. math:: H_{k+1} = \kappa \hat A H_k + (1 - |\kappa|) H_0 + g D \xi_k, \qquad D = \mathrm{diag}(s_j),

so that after K steps a node's state is Gaussian around the solution without noise, with the variance

.. math:: g^2 \sum_{k < K} \kappa^{2k} \sum_j (\hat A^k)_{ij}^2\, s_j^2

in every channel. If loss and prediction are sums over nodes, these marginals are all that matters.

Powers of a sparse matrix are dense, so they are never built as a whole. Small graphs get exact sums, one block of
columns at a time. Elsewhere signs z_j = ±1 are used: :math:`E (\sum_j m_{ij} z_j)^2 = \sum_j m_{ij}^2 =: a`, with the
variance :math:`2 (a^2 - \sum_j m_{ij}^4) \le 2 a^2`, so that the mean over :math:`\lceil 2/\varepsilon^2 \rceil` probes
has a relative standard error of at most ε.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphsde.base.arguments import choice, number, whole
from graphsde.base.device import widened, widest_type
from graphsde.base.errors import BadUsage
from graphsde.base.seeds import check_seed, torch_stream
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import Kept, rows_of, smoothing_scale

NOISE_CHANNELS = ("identity", "smoothing")
"""The noise channel: the identity, or B = Â/ρ as in the ``smoothed`` diffusion."""

EXACT_ENERGIES = 4_000_000_000
"""Maximum multiplications for exact row energies, a second or two of one core; beyond it probes are used."""
EXACT_WEIGHTS = 30_000_000_000
"""The same of :func:`propagation_weights`, which save products through the graph at every later call."""
KEPT_ENTRIES = 40_000_000
"""Maximum entries of such weights, 160 MB in single precision."""
_LEAST_COLUMNS = 8
_PILOT, _MOST_NODES = 32, 0.99  # probes before it is known how many are needed, and the share of nodes they must serve
_BLOCK_ENTRIES = 1 << 19  # of one dense block: small enough for a cache, measured as the fastest

_ENERGIES: Kept[Tensor] = Kept(4)
_WEIGHTS: Kept[Tensor] = Kept(2)


def probes_for(relative_error: float) -> int:
    """How many probes give at most this relative standard error: ⌈2/ε²⌉.

    Example:
        >>> probes_for(0.1)
        200
    """
    error = number(relative_error, "relative_error", above=0.0)
    return math.ceil(2.0 / error**2 - 1e-9)


def row_energies(adjacency: SparseMatrix, steps: int, *, relative_error: float = 0.1, seed: int = 0) -> Tensor:
    """Squared norms of the rows of Â⁰, Â¹, …, one column per power; cached per graph, read-only.

    Args:
        adjacency: Â.
        steps: K, the number of powers.
        relative_error: ε of the probes on large graphs, as a standard error; 0 for exact sums at any cost.
        seed: of the probes; the same seed gives the same numbers.

    Returns:
        a_ik = ‖row i of Âᵏ‖².  # [N, K]

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> energies = row_energies(adjacency, 3)
        >>> bool((energies[:, 0] == 1).all()), bool((energies[:, 1] < 1).all())
        (True, True)
    """
    whole(steps, "steps", at_least=1)
    error = number(relative_error, "relative_error", at_least=0.0)
    key = (steps, error, check_seed(seed))
    if adjacency.found is not None:  # a part's rows of the whole graph's result
        return adjacency.found.energies(steps)
    return _ENERGIES.once(adjacency, key, lambda: _energies(adjacency, *key))


def _energies(adjacency: SparseMatrix, steps: int, error: float, seed: int) -> Tensor:
    _require_square(adjacency)
    size = adjacency.shape[0]
    dtype = adjacency.values.dtype
    total = torch.zeros(size, steps, dtype=widest_type(adjacency.device), device=adjacency.device)
    total[:, 0] = 1.0
    if steps > 1:  # the first power is known: its squares cost nothing
        squares = widened(adjacency.values).square()
        total[:, 1] = squares.new_zeros(size).index_add_(0, rows_of(adjacency), squares)
    if steps <= 2:
        return total.to(dtype)
    exact = error == 0 or size <= probes_for(error) or _products(adjacency, size, steps) <= EXACT_ENERGIES
    columns = size if exact else probes_for(error)
    generator = torch_stream(seed, "row energies")
    for block in _blocks(columns, size):
        dense = _unit_columns(size, block, dtype) if exact else _signs(size, len(block), generator, dtype)
        dense = adjacency.times(dense.to(adjacency.device))
        for k in range(2, steps):
            dense = adjacency.times(dense)
            total[:, k] += dense.square().sum(1)
    if not exact:
        total[:, 2:] /= columns
    return total.to(dtype)


def unit_variance(
    adjacency: SparseMatrix,
    kappa: float | Tensor,
    steps: int,
    *,
    channel: str = "identity",
    relative_error: float = 0.1,
    seed: int = 0,
) -> Tensor:
    """Variance of every node's state if g and all s_j are one: Σ_k κ^{2k} ‖row i of Âᵏ‖², a polynomial in κ.

    Args:
        adjacency: Â.
        kappa: κ, a number or one per channel of the state; gradients flow to it.  # [d]
        steps: K.
        channel: ``identity``, or ``smoothing`` for noise that goes through B = Â/ρ.
        relative_error, seed: as in :func:`row_energies`.

    Returns:
        The variances, with d = 1 for a number.  # [N, d]
    """
    choice(channel, "channel", NOISE_CHANNELS)
    whole(steps, "steps", at_least=1)
    shift = int(channel == "smoothing")
    energies = row_energies(adjacency, steps + shift, relative_error=relative_error, seed=seed)[:, shift:]
    kappa = kappa if isinstance(kappa, Tensor) else energies.new_tensor(kappa)
    powers = kappa.reshape(1, -1).square() ** torch.arange(steps, device=kappa.device)[:, None]  # [K, d]
    variance = energies.to(powers.dtype) @ powers
    return variance * smoothing_scale(adjacency) ** 2 if shift else variance


def propagated_variance(
    adjacency: SparseMatrix,
    kappa: float,
    steps: int,
    node_variance: Tensor,
    rows: Tensor | None = None,
    *,
    channel: str = "identity",
    relative_error: float = 0.1,
    seed: int = 0,
) -> Tensor:
    """Variance of some nodes' states if every node has its own noise: Σ_k κ^{2k} Σ_j (Âᵏ)_ij² s_j².

    Exact while the matrix of weights between those nodes and all is small enough to keep, so that calls for the same
    rows with other variances are one product. Otherwise the first two powers of Â are exact, and the others come from
    probes ±s_j, redrawn from the seed at every call.

    Args:
        adjacency: Â.
        kappa: κ.
        steps: K.
        node_variance: s², not negative; gradients flow to it, with probes where it is positive.  # [N]
        rows: positions of the nodes; default all.  # [n] int64
        channel: ``identity``, or ``smoothing``: then D comes first and B = Â/ρ spreads the noise.
        relative_error: standard error of all but a hundredth of the variances; 0 for exact sums at any cost.
        seed: of the probes.

    Returns:
        The variances, in the dtype of ``node_variance``.  # [n]
    """
    choice(channel, "channel", NOISE_CHANNELS)
    whole(steps, "steps", at_least=1)
    _require_square(adjacency)
    size, shift = adjacency.shape[0], int(channel == "smoothing")
    if node_variance.shape != (size,) or not bool((node_variance.detach() >= 0).all()):
        raise BadUsage(
            "node_variance must hold one variance per node",
            code="E-LEN",
            found=list(node_variance.shape),
            expected=f"{size} numbers, none negative",
        )
    rows = torch.arange(size, device=adjacency.device) if rows is None else rows
    error = number(relative_error, "relative_error", at_least=0.0)
    if error == 0 or exact_rows(adjacency, steps + shift) >= len(rows):
        weights = propagation_weights(adjacency, kappa, steps, rows, channel=channel)
        return (weights @ node_variance.to(weights.dtype)).to(node_variance.dtype)
    shares = [float(kappa) ** (2 * (k - shift)) if k >= shift else 0.0 for k in range(steps + shift)]
    found = _probed_variance(adjacency, node_variance, rows, shares, error, check_seed(seed))
    return found * smoothing_scale(adjacency) ** 2 if shift else found


def _probed_variance(
    adjacency: SparseMatrix, node_variance: Tensor, rows: Tensor, shares: list[float], error: float, seed: int
) -> Tensor:
    """Σ_k share_k Σ_j (Âᵏ)_ij² s_j², the first two powers exactly.  # [N], [n] -> [n]"""
    dtype, size = adjacency.values.dtype, adjacency.shape[0]
    known = shares[0] * node_variance[rows]
    if len(shares) > 1:
        squares = adjacency.like(adjacency.values.square(), symmetric=adjacency.symmetric)
        known = known + shares[1] * (squares @ node_variance.to(dtype)[:, None])[rows, 0].to(known.dtype)
    if len(shares) <= 2:
        return known
    generator = torch_stream(seed, "propagated variance")
    spread = node_variance.to(dtype).sqrt()[:, None]
    total, drawn, needed = torch.zeros_like(known), 0, min(_PILOT, probes_for(error))
    while drawn < needed:
        for block in _blocks(needed - drawn, size):
            dense = spread * _signs(size, len(block), generator, dtype).to(spread.device)
            dense = adjacency @ dense
            for share in shares[2:]:
                dense = adjacency @ dense
                total = total + share * dense[rows].square().sum(1).to(total.dtype)
            drawn += len(block)
        # what probes estimate is only a part of the sum: its error counts by that part
        part = (total / drawn / (known + total / drawn).clamp_min(torch.finfo(total.dtype).tiny)).detach()
        largest = float(part.kthvalue(max(1, math.ceil(_MOST_NODES * len(part)))).values)
        needed = min(max(needed, math.ceil(probes_for(error) * largest**2)), probes_for(error))
    return known + total / drawn


def propagation_weights(
    adjacency: SparseMatrix, kappa: float, steps: int, rows: Tensor, *, channel: str = "identity"
) -> Tensor:
    """M with v = M s²: M_ij = Σ_k κ^{2k} (Âᵏ)_ij² for some rows i, exactly; cached for the last rows.

    ``exact_rows`` says for how many rows this is cheap.  # [n, N]
    """
    shift = int(choice(channel, "channel", NOISE_CHANNELS) == "smoothing")
    key = (float(kappa), steps, channel, rows.cpu().numpy().tobytes())

    def build() -> Tensor:
        size, turned = adjacency.shape[0], adjacency.transposed()  # rows of Âᵏ are columns of its transpose's power
        weights = adjacency.values.new_zeros(len(rows), size)
        for block in _blocks(len(rows), size):
            dense = _unit_columns(size, rows[block.start : block.stop].cpu(), adjacency.values.dtype).to(
                adjacency.device
            )
            for k in range(steps + shift):
                dense = turned.times(dense) if k else dense
                if k >= shift:
                    weights[block.start : block.stop] += (float(kappa) ** (2 * (k - shift)) * dense.square()).T
        return weights * smoothing_scale(adjacency) ** 2 if shift else weights

    return _WEIGHTS.once(adjacency, key, build)


def exact_rows(adjacency: SparseMatrix, steps: int) -> int:
    """For how many nodes exact weights are cheap, in time and in memory."""
    in_time = EXACT_WEIGHTS // max(_products(adjacency, 1, steps), 1)
    return min(in_time, KEPT_ENTRIES // max(adjacency.shape[0], 1))


def _products(adjacency: SparseMatrix, columns: int, steps: int) -> int:
    return adjacency.nnz * columns * max(steps - 1, 0)


def _blocks(columns: int, size: int) -> list[range]:
    # on a large graph a product costs as much for a few columns as for one
    width = max(1, min(columns, max(_LEAST_COLUMNS, _BLOCK_ENTRIES // max(size, 1))))
    return [range(start, min(start + width, columns)) for start in range(0, columns, width)]


def _unit_columns(size: int, positions: range | Tensor, dtype: torch.dtype) -> Tensor:
    dense = torch.zeros(size, len(positions), dtype=dtype)
    dense[torch.as_tensor(positions), torch.arange(len(positions))] = 1.0
    return dense


def _signs(size: int, columns: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    return torch.randint(0, 2, (size, columns), generator=generator).to(dtype).mul_(2.0).sub_(1.0)


def _require_square(adjacency: SparseMatrix) -> None:
    if adjacency.shape[0] != adjacency.shape[1]:
        raise BadUsage(
            "only a square operator has powers", code="E-OPERATOR", found=list(adjacency.shape), expected="[N, N]"
        )
