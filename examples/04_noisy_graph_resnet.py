"""Euler–Maruyama with unit step is a residual network with noise, layer for layer.

With dt = 1 the step of dH = f(t, H) dt + g dW is H ← H + f(t, H) + g ξ: a residual graph network whose every layer adds
Gaussian noise. The paper's appendix states it; here both are computed and compared.

Run: python examples/04_noisy_graph_resnet.py
"""

from __future__ import annotations

import torch

import graphsde as gs
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.diffusion import ConstantDiffusion
from graphsde.sde.drift import GCNDrift
from graphsde.sde.integrate import integrate

LAYERS, WIDTH, PATHS, SIGMA = 6, 16, 3, 0.2


def main() -> None:
    graph = gs.load("digits")
    adjacency, keys = graph.adjacency.operator, node_keys(graph.node_ids)
    field = GCNDrift(WIDTH, generator=torch.Generator().manual_seed(0))
    initial = torch.randn(graph.num_nodes, PATHS, WIDTH, generator=torch.Generator().manual_seed(1))
    noise = BrownianMotion(0, keys, range(PATHS), WIDTH, horizon=float(LAYERS), cells=LAYERS)

    with torch.no_grad():
        diffusion = ConstantDiffusion(WIDTH, sigma=SIGMA)
        equation = integrate(
            field.bind(adjacency, initial),
            initial,
            horizon=float(LAYERS),
            steps=LAYERS,
            solver="euler",
            diffusion=diffusion.bind(adjacency),
            noise_kind=diffusion.noise,
            brownian=noise,
        ).final

        layer, hidden = field.bind(adjacency, initial), initial
        for depth in range(LAYERS):
            hidden = hidden + layer(float(depth), hidden) + SIGMA * noise.increment(depth, depth + 1).dw

    gap = float((equation - hidden).abs().max() / hidden.abs().max())
    print(f"{LAYERS} noisy residual layers against {LAYERS} unit steps: largest relative difference {gap:.1e}")
    # the two add the same three numbers in another order, so float32 may round the last bit differently
    print("the same network" if gap < 1e-6 else "NOT the same network")


if __name__ == "__main__":
    main()
