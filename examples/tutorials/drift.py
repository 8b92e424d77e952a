# %% [markdown]
# # A drift of your own
#
# In an LGNSDE the states of nodes follow a stochastic differential equation on the graph. Its drift says where a state
# is heading. Here we write one in thirty lines, run the package's own tests on it, and use it by name.

# %%
import torch

import graphsde as gs
from graphsde.view.figures import RiskCoverageCurves

# %% [markdown]
# ## Write it
#
# The flow of graph diffusion: every node is pulled towards the mean of its neighbours, here with a learned strength for
# each dimension. `bind` gets the adjacency matrix once per solve; what it returns is called at every step and names the
# `tensors` that gradients flow to.


# %%
@gs.register
class Pull(gs.Drift):
    """Every node is pulled towards its neighbours with a learned strength for each dimension.

    Paper: none; the flow is that of Chamberlain et al., "GRAND", ICML 2021.
    """

    name, summary = "pull", "learned pull towards the neighbours"
    paper, year = "a tutorial", 2026

    def __init__(self, width: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.strength = torch.nn.Parameter(torch.rand(width, generator=generator))

    def bind(self, adjacency, initial, generator=None):
        return BoundPull(self.strength, adjacency.to(initial.dtype))


class BoundPull:
    def __init__(self, strength: torch.Tensor, adjacency: gs.SparseMatrix) -> None:
        self.strength, self.adjacency, self.tensors = strength, adjacency, (strength,)

    def __call__(self, t: float, h: torch.Tensor) -> torch.Tensor:
        around = (self.adjacency @ h.reshape(h.shape[0], -1)).view(h.shape)
        return (around - h) * self.strength


# %% [markdown]
# ## Test it
#
# `check_drift` checks the contract that every drift of the package meets: shapes and types, correct gradients, the same
# weights from the same seed, independence of the order of nodes, paths that do not mix, and more.

# %%
print(gs.testing.check_drift(Pull), "guarantees kept")

# %% [markdown]
# ## Use it
#
# Use it by name, like any other. With your own drift, the prior and the diffusion follow the paper: the prior pulls
# everything towards zero, and the noise is constant.

# %%
graph = gs.load("digits")
settings = {"preset": "paper", "sigma": 0.5, "kl_weight": 1e-3, "epochs": 60}
predictions = {}
for drift in ("pull", "gcn"):
    predictions[drift] = gs.LGNSDE(drift=drift, **settings).fit(graph).predict(graph, samples=32)
    found = gs.evaluate(predictions[drift], graph)
    print(f"{drift:>5}: accuracy {found['accuracy']:.3f}, NLL {found['nll']:.3f}, AURC {found['aurc']:.4f}")

# %% Error rate against the share accepted, for the pull and for a GCN as drift
test = graph.test_mask
RiskCoverageCurves.of(
    {name: (one.total[test], (one.index != graph.labels)[test]) for name, one in predictions.items()}
).matplotlib()

# %% [markdown]
# Thirty lines without a weight matrix, compared with a two-layer network. Whether either is better than the default model
# is a question for [a bench](../bench.md): one graph and one seed prove nothing.
#
# The command line also knows the component once its module is named in `GRAPHSDE_PLUGINS`
# ([plugins](../../CONTRIBUTING.md#plugins)). Priors, diffusions, solvers and scores work the same way
# ([dynamics](../dynamics.md)).
