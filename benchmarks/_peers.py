"""What the same task costs with the libraries that one would reach for today."""

from __future__ import annotations

from collections.abc import Callable

import torch
from _workload import HORIZON, SIGMA, THETA, LatentSDE, Task, evidence_bound
from torch import Tensor, nn
from torch.nn import functional

from graphsde.nn.layers import Linear


def same_steps(steps: int) -> float:
    """A step length with which torchsde walks from 0 to the horizon in exactly ``steps`` steps.

    It adds the length up in float32 and takes one more, tiny step where the sum falls short of the horizon.
    """
    dt = HORIZON / steps
    while _count(dt) > steps:
        dt *= 1 + 1e-7
    assert _count(dt) == steps
    return dt


def _count(dt: float) -> int:
    now, end, count = torch.zeros(()), torch.tensor(HORIZON), 0
    while now < end:
        now, count = min(now + dt, end), count + 1
    return count


class _Equation(nn.Module):
    """Posterior drift and diffusion as torchsde wants them; with the KL, one more column that has no noise."""

    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, drift: Callable[[Tensor, Tensor], Tensor], kl: bool) -> None:
        super().__init__()
        self.drift, self.kl = drift, kl

    def f(self, t: Tensor, y: Tensor) -> Tensor:
        if not self.kl:
            return self.drift(t, y)
        h = y[:, :-1]
        f = self.drift(t, h)
        u = (f + THETA * h) / SIGMA
        return torch.cat([f, 0.5 * u.square().sum(1, keepdim=True)], dim=1)

    def g(self, t: Tensor, y: Tensor) -> Tensor:
        if not self.kl:
            return torch.full_like(y, SIGMA)
        return torch.cat([torch.full_like(y[:, :-1], SIGMA), torch.zeros_like(y[:, -1:])], dim=1)


def torchsde_solve(
    drift: Callable[[Tensor, Tensor], Tensor], initial: Tensor, steps: int, method: str, *, kl: bool, seed: int
) -> Tensor:
    """The state at the horizon, and the KL of each node as last column where it is wanted.  # [N, d] -> [N, d (+ 1)]"""
    import torchsde

    if kl:
        initial = torch.cat([initial, initial.new_zeros(initial.shape[0], 1)], dim=1)
    # the interval that sdeint would make itself, but for the seed, which it takes from numpy's global state
    area = "space-time" if method == "srk" else "none"
    motion = torchsde.BrownianInterval(
        0.0, HORIZON, size=tuple(initial.shape), entropy=seed, levy_area_approximation=area
    )
    times = torch.tensor([0.0, HORIZON])
    return torchsde.sdeint(_Equation(drift, kl), initial, times, bm=motion, method=method, dt=same_steps(steps))[-1]


class ReferenceSDE(nn.Module):
    """torchsde's SRK for diagonal noise, PyG convolutions on an edge list, dense features, the KL as one more state."""

    def __init__(self, task: Task, width: int, steps: int) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.task, self.steps = task, steps
        self.features = task.dense_features()
        self.encoder = nn.Linear(self.features.shape[1], width)
        self.first, self.second = GCNConv(width + 1, width), GCNConv(width, width)
        self.decoder = nn.Linear(width, task.classes)

    def drift(self, t: Tensor, h: Tensor) -> Tensor:
        edges = self.task.edge_index
        x = torch.cat([h, t.expand(h.shape[0], 1)], dim=1)
        return self.second(functional.softplus(self.first(x, edges)), edges)

    def loss(self, epoch: int) -> Tensor:
        y = torchsde_solve(self.drift, self.encoder(self.features), self.steps, "srk", kl=True, seed=epoch)
        return evidence_bound(self.decoder(y[self.task.train, :-1]), y[:, -1].sum(), self.task)

    def predict(self, samples: int) -> Tensor:
        total = torch.zeros(self.task.nodes, self.task.classes)
        with torch.no_grad():
            initial = self.encoder(self.features)
            for seed in range(samples):
                state = torchsde_solve(self.drift, initial, self.steps, "srk", kl=False, seed=seed)
                total += torch.softmax(self.decoder(state), -1)
        return total / samples


class TorchsdeEuler(LatentSDE):
    """Our own module, sparse encoder and CSR drift, walked by torchsde's Euler method."""

    def loss(self, epoch: int) -> Tensor:
        initial = self.encoder(self.task.features)
        bound = self.drift.bind(self.task.adjacency, initial.unsqueeze(1))

        def drift(t: Tensor, h: Tensor) -> Tensor:
            return bound(float(t), h.unsqueeze(1)).squeeze(1)

        y = torchsde_solve(drift, initial, self.steps, "euler", kl=True, seed=epoch)
        return evidence_bound(self.decoder(y[self.task.train, :-1]), y[:, -1].sum(), self.task)


class TorchsdeEulerCSR(nn.Module):
    """torchsde's Euler method on the same CSR operator by torch's own sparse product, with the same sparse encoder."""

    def __init__(self, task: Task, width: int, steps: int) -> None:
        super().__init__()
        self.task, self.steps = task, steps
        self.operator = task.adjacency.csr()
        self.encoder = Linear(task.features.shape[1], width, torch.Generator().manual_seed(0))
        self.first, self.second = nn.Linear(width + 1, width), nn.Linear(width, width)
        self.decoder = nn.Linear(width, task.classes)

    def drift(self, t: Tensor, h: Tensor) -> Tensor:
        x = torch.cat([h, t.expand(h.shape[0], 1)], dim=1)
        return self.operator @ self.second(functional.softplus(self.operator @ self.first(x)))

    def loss(self, epoch: int) -> Tensor:
        y = torchsde_solve(self.drift, self.encoder(self.task.features), self.steps, "euler", kl=True, seed=epoch)
        return evidence_bound(self.decoder(y[self.task.train, :-1]), y[:, -1].sum(), self.task)


class PlainGCN(nn.Module):
    """PyG's two-layer network without uncertainty, dense features, normalisation cached."""

    def __init__(self, task: Task, width: int) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.task, self.features = task, task.dense_features()
        self.first = GCNConv(self.features.shape[1], width, cached=True)
        self.second = GCNConv(width, task.classes, cached=True)

    def loss(self, epoch: int) -> Tensor:
        edges = self.task.edge_index
        logits = self.second(torch.relu(self.first(self.features, edges)), edges)
        return functional.cross_entropy(logits[self.task.train], self.task.labels)
