"""A model that you have already, here one of PyTorch Geometric: calibrated, with decisions and a report around it.

Run: python examples/07_a_pyg_model_that_you_have.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import graphsde as gs


class Net(torch.nn.Module):
    """A GCN as in the tutorials; nothing in it knows of this package."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 32), GCNConv(32, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = torch.nn.functional.dropout(self.conv1(x, edge_index).relu(), training=self.training)
        found: Tensor = self.conv2(x, edge_index).log_softmax(-1)
        return found


def train(data: Data, epochs: int = 60) -> Net:
    torch.manual_seed(0)
    module = Net(data.num_features, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimizer.zero_grad()
        logs = module(data.x, data.edge_index)
        torch.nn.functional.nll_loss(logs[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    return module


def main() -> None:
    data = gs.to_pyg(gs.split(gs.load("digits"), "fractions"))  # any Data with train_mask, val_mask and test_mask
    module = train(data)

    model = gs.wrap(module, data)
    prediction = model.calibrate(model.graph).predict(model.graph)
    decisions = gs.decide(prediction, model.graph, max_error=0.05, guarantee="certified", model=model)

    figures, found = gs.evaluate(prediction, model.graph), decisions.summary()
    print(f"accuracy {figures['accuracy']:.3f}, NLL {figures['nll']:.3f}, temperature {prediction.temperature:.2f}")
    print({action: int(count) for action, count in found["actions"].items()})
    print(found["guarantee"])

    with tempfile.TemporaryDirectory() as folder:  # a folder of yours keeps it: graphsde report FOLDER, graphsde app …
        run = gs.save_run(model, model.graph, Path(folder) / "run")
        print("a run with", ", ".join(sorted(path.name for path in run.iterdir() if path.suffix == ".parquet")))

    sampled = gs.wrap(module, data, dropout=True).predict(model.graph, samples=32)
    print(f"with dropout: epistemic uncertainty {sampled.epistemic.mean():.3f} nats on average")


if __name__ == "__main__":
    main()
