"""The subject: a fitted network on its graph, in double precision, so that rounding is not mistaken for a violation."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.memory import require_memory
from graphsde.base.seeds import derive
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.base import Model, encode
from graphsde.models.lgnsde import LGNSDE
from graphsde.models.lgnsde.module import LGNSDEModule, Noise
from graphsde.models.neural import Inputs
from graphsde.sde.brownian import node_keys
from graphsde.sde.integrate import saved_steps

MOST_TIMES = 33
# numbers of latent state that one solve may keep
BUDGET = 16_000_000


@dataclass(frozen=True)
class Subject:
    """A network, its graph and its Brownian paths; ``initial`` is H(0), one state for all paths.  # [N, 1, d]

    Outputs are logits, and class probabilities where it predicts classes (``of_classes``).

    The paths are those of ``predict``: keyed normals of both precisions come from the same bits.
    """

    module: LGNSDEModule
    inputs: Inputs
    keys: Tensor
    stream: int
    initial: Tensor
    of_classes: bool = True

    @classmethod
    def of_model(cls, model: Model, graph: Graph) -> Subject:
        """From a fitted LGNSDE."""
        if not isinstance(model, LGNSDE):
            raise BadUsage(
                f"the propositions are about stochastic differential equations, and '{model.name}' is not one",
                found=model.name,
                expected="a run of lgnsde",
                fix="graphsde fit GRAPH --model lgnsde --out RUN",
            )
        model._require_fitted()
        model._check_classes(graph)
        assert model.encoder is not None and isinstance(model.module, LGNSDEModule)
        inputs = Inputs(encode(model.encoder, graph), graph.adjacency.operator)
        stream = derive(model.settings.seed, "prediction paths")
        found = cls.of_module(model.module, inputs, node_keys(graph.node_ids), stream)
        return replace(found, of_classes=model.has_trajectories)

    @classmethod
    def of_module(cls, module: LGNSDEModule, inputs: Inputs, keys: Tensor, stream: int) -> Subject:
        """From a network; it is copied, not changed."""
        twin = copy.deepcopy(module).double().eval().requires_grad_(False)
        matrix = inputs.adjacency
        double = SparseMatrix(matrix.crow, matrix.col, matrix.values.double(), matrix.shape, symmetric=matrix.symmetric)
        precise = Inputs(inputs.features.to(torch.float64), double)
        # set the size of the diffusion, as a solve would
        twin.diffusion.set_gain(float(twin.gain) if twin.settings.sigma_is == "ratio" else 1.0)
        with torch.no_grad():
            initial = twin.initial(precise, 1, None)
        return cls(twin, precise, keys, stream, initial)

    @property
    def step_length(self) -> float:
        return self.module.settings.horizon / self.module.settings.steps

    @property
    def noisy(self) -> bool:
        return self.module.noisy and not self.module.diffusion.is_zero

    @property
    def state_dependent(self) -> bool:
        return self.noisy and self.module.diffusion.noise == "diagonal"

    @property
    def saved_steps(self) -> tuple[int, ...]:
        """After how many steps states are saved: all, or as many as memory and a figure can hold."""
        return saved_steps(self._count(), self.module.settings.steps)

    @property
    def times(self) -> tuple[float, ...]:
        return tuple(step * self.step_length for step in self.saved_steps)

    def groups(self, paths: int) -> Iterator[range]:
        """Paths in groups of an even number, each small enough to be held in memory; the last may be odd."""
        nodes, _, width = self.initial.shape
        per_path = nodes * width * len(self.saved_steps)
        require_memory(8 * 6 * 2 * per_path, "simulating two paths", "use a smaller graph or a smaller hidden width")
        size = 2 * max(1, min(32, BUDGET // (2 * per_path)))
        for first in range(0, paths, size):
            yield range(first, min(first + size, paths))

    def states(self, paths: Sequence[int], initial: Tensor | None = None) -> tuple[Tensor, ...]:
        """The states of ``paths`` at all :attr:`times`, from H(0) or another start.  # M × [N, S, d]"""
        with torch.no_grad():
            return self._solve(paths, self.initial if initial is None else initial, whole=True)

    def final(self, path: int, initial: Tensor) -> Tensor:
        """One path's state at the horizon, differentiable in ``initial``.  # [N, 1, d] -> [N, 1, d]"""
        return self._solve([path], initial, whole=False)[-1]

    @property
    def temperature(self) -> float:
        return float(self.module.log_temperature.exp())

    def logits(self, state: Tensor) -> Tensor:
        """Before the temperature, as ``predict`` gives them.  # [N, S, d] -> [N, S, C]"""
        with torch.no_grad():
            return self.module.decode(self.inputs, state)

    def probabilities(self, logits: Tensor) -> Tensor:
        """After the temperature, as ``predict`` gives them.  # [N, S, C] -> [N, S, C]"""
        return torch.softmax(logits / self.temperature, -1)

    def _solve(self, paths: Sequence[int], initial: Tensor, *, whole: bool) -> tuple[Tensor, ...]:
        noise = Noise(self.stream, self.keys, paths)
        return self.module.trajectory(self.inputs, noise, initial, save=self._count() if whole else "last").saved

    def _count(self) -> int:
        nodes, _, width = self.initial.shape
        return max(2, min(self.module.settings.steps + 1, MOST_TIMES, BUDGET // (2 * nodes * width)))
