# %% [markdown]
# # Around a PyG model of your own
#
# You already have a model, here a GCN of PyTorch Geometric with its own training loop. Nothing in it knows about this
# package. `gs.wrap` adds calibration, guarantees, out-of-distribution flags and reports.

# %%
import torch
from torch_geometric.nn import GCNConv

import graphsde as gs
from graphsde.view.figures import ReliabilityDiagram


class Net(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 32), GCNConv(32, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.dropout(self.conv1(x, edge_index).relu(), training=self.training)
        return self.conv2(x, edge_index)


# %% [markdown]
# ## Your data, your training
#
# Any `Data` with `train_mask`, `val_mask` and `test_mask` will do. We use the images of `digits`, which need no
# download, with a third of them for calibration.

# %%
data = gs.to_pyg(gs.split(gs.load("digits"), "fractions", train=0.1, val=0.15, calibration=0.35, test=0.4))
data

# %%
torch.manual_seed(0)
net = Net(data.num_features, int(data.y.max()) + 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(100):
    optimizer.zero_grad()
    logits = net(data.x, data.edge_index)
    loss = torch.nn.functional.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
print(f"training loss {loss.item():.3f}")

# %% [markdown]
# ## Wrap it

# %%
model = gs.wrap(net, data)
graph = model.graph
raw = model.predict(graph)
calibrated = model.calibrate(graph).predict(graph)  # one temperature, fitted on the validation nodes
for name, prediction in {"as it was": raw, "calibrated": calibrated}.items():
    found = gs.evaluate(prediction, graph)
    print(f"{name:>10}: accuracy {found['accuracy']:.3f}, NLL {found['nll']:.3f}, ECE {found['ece']:.3f}")

# %% [markdown]
# Dropout in training often leaves a network underconfident or overconfident. After calibration, predictions with a
# confidence of 80 % are right about 80 % of the time.

# %% Accuracy against confidence in bins, with the number of test nodes in each, after calibration
test = graph.test_mask
ReliabilityDiagram.of(calibrated.mean[test], graph.labels[test]).matplotlib()

# %% [markdown]
# ## Decide, with a guarantee

# %%
decisions = gs.decide(calibrated, graph, max_error=0.05, model=model)
print(decisions)

# %% [markdown]
# ## Is it worth it? Simple controls on the same nodes
#
# A logistic regression, label propagation and the majority class cost seconds. If they do as well, use them.

# %%
print(gs.controls(graph, calibrated, name="my GCN").sentence)

# %% [markdown]
# ## Dropout as samples
#
# With `dropout=True` every sample keeps its dropout masks, which gives an epistemic part.

# %%
sampled = gs.wrap(net, data, dropout=True).predict(graph, samples=32)
print(f"epistemic uncertainty {sampled.epistemic[test].mean():.3f} nats on average over the test nodes")

# %% [markdown]
# ## Keep it
#
# A run is a folder that every command reads: `graphsde report runs/mine`, `graphsde app runs`.

# %%
run = gs.save_run(model, graph, "runs/mine")
sorted(path.name for path in run.iterdir() if not path.name.startswith("."))

# %% [markdown]
# More ways in, such as predictions from a forest or from any other library: [own models](../own-models.md).
