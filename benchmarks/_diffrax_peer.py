"""The same latent SDE with JAX and diffrax: SRA1, a virtual Brownian tree, everything of a training step compiled.

Optional: neither is a dependency of this package. Where jax or diffrax can't be imported the peer is left out.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
from _fit import Schedule
from _latent_peers import DECAY, DROPOUT, KL_WEIGHT
from _workload import HORIZON, SIGMA, THETA, Task

# one thread, as for everybody else; CPU time counts all threads in any case
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")


def missing() -> str | None:
    """Why this peer can't take part; ``None`` where it can."""
    try:
        import diffrax  # noqa: F401
        import jax
    except ImportError as error:
        return f"{error}; pip install jax diffrax"
    jax.config.update("jax_platforms", "cpu")
    return None


class DiffraxSDE:
    """Parameters, compiled loss, gradient and prediction.

    Args:
        task: the graph.
        validation: positions of the validation nodes.  # [n]
        labels: theirs.  # [n]
        width: d.
        steps: L.
        seed: of weights, masks and noise.
    """

    def __init__(
        self, task: Task, validation: np.ndarray, labels: np.ndarray, *, width: int, steps: int, seed: int = 0
    ) -> None:
        import jax

        self.task, self.width, self.steps = task, width, steps
        self.validation, self.labels = validation, labels
        self.features, self.adjacency = _entries(task.features), _entries(task.adjacency)
        self.train_rows, self.train_labels = task.train.numpy(), task.labels.numpy()
        self.key = jax.random.key(seed)
        self.params = self._initial(jax.random.fold_in(self.key, 0))
        self._compiled_step, self._compiled_probs = jax.jit(self._step), jax.jit(self._probs)

    def _initial(self, key: Any) -> dict[str, Any]:
        import jax
        import jax.numpy as jnp

        shapes = {
            "encoder": (self.task.features.shape[1], self.width),
            "first": (self.width + 1, self.width),
            "second": (self.width, self.width),
            "decoder": (self.width, self.task.classes),
        }
        found: dict[str, Any] = {}
        for place, (name, (rows, columns)) in enumerate(shapes.items()):
            bound = math.sqrt(6.0 / (rows + columns))
            own = jax.random.fold_in(key, place)
            found[name] = jax.random.uniform(own, (rows, columns), minval=-bound, maxval=bound)
            found[f"{name}.bias"] = jnp.zeros(columns)
        return found

    def _drift(self, params: dict[str, Any], t: Any, h: Any) -> Any:
        import jax
        import jax.numpy as jnp

        x = jnp.concatenate([h, jnp.full((h.shape[0], 1), t, h.dtype)], axis=1)
        inner = _spmm(self.adjacency, x @ params["first"]) + params["first.bias"]
        return _spmm(self.adjacency, jax.nn.softplus(inner) @ params["second"]) + params["second.bias"]

    def _solve(self, params: dict[str, Any], initial: Any, key: Any) -> Any:
        """H(T), and the path KL of each node as last column.  # [N, d] -> [N, d + 1]"""
        import diffrax
        import jax.numpy as jnp
        import lineax

        def field(t: Any, y: Any, args: Any) -> Any:
            h = y[:, :-1]
            f = self._drift(params, t, h)
            u = (f + THETA * h) / SIGMA
            return jnp.concatenate([f, 0.5 * jnp.square(u).sum(1, keepdims=True)], axis=1)

        shape, dt = (initial.shape[0], self.width + 1), HORIZON / self.steps
        scale = jnp.full(shape, SIGMA).at[:, -1].set(0.0)
        # of a tolerance below the step: finer levels of the tree would never be asked for
        motion = diffrax.VirtualBrownianTree(
            0.0, HORIZON, tol=dt / 2, shape=shape, key=key, levy_area=diffrax.SpaceTimeLevyArea
        )
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(field),
            diffrax.ControlTerm(lambda t, y, args: lineax.DiagonalLinearOperator(scale), motion),
        )
        first = jnp.concatenate([initial, jnp.zeros((initial.shape[0], 1))], axis=1)
        found = diffrax.diffeqsolve(
            terms,
            diffrax.SRA1(),
            0.0,
            HORIZON,
            None,
            first,
            stepsize_controller=diffrax.StepTo(ts=jnp.linspace(0.0, HORIZON, self.steps + 1)),
            saveat=diffrax.SaveAt(t1=True),
            max_steps=self.steps,
        )
        assert found.ys is not None
        return found.ys[0]

    def _encoded(self, params: dict[str, Any], key: Any | None) -> Any:
        import jax
        import jax.numpy as jnp

        rows, columns, values, count = self.features
        if key is not None:
            values = values * jax.random.bernoulli(key, 1 - DROPOUT, values.shape) / (1 - DROPOUT)
        product = _spmm((rows, columns, values, count), params["encoder"])
        return jnp.maximum(product + params["encoder.bias"], 0.0)

    def _loss(self, params: dict[str, Any], key: Any) -> Any:
        import jax

        masks, kept, noise = jax.random.split(key, 3)
        y = self._solve(params, self._encoded(params, masks), noise)
        h = y[self.train_rows, :-1]
        h = h * jax.random.bernoulli(kept, 1 - DROPOUT, h.shape) / (1 - DROPOUT)
        logs = jax.nn.log_softmax(h @ params["decoder"] + params["decoder.bias"])
        nll = -logs[np.arange(len(self.train_labels)), self.train_labels].mean()
        return nll + KL_WEIGHT * y[:, -1].mean()

    def _step(self, params: Any, moments: Any, key: Any, count: Any, lr: Any) -> Any:
        """One step of Adam with decay in the gradient, as torch has it."""
        import jax
        import jax.numpy as jnp

        gradient = jax.grad(self._loss)(params, key)
        gradient = jax.tree.map(lambda g, p: g + DECAY * p, gradient, params)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
        second = jax.tree.map(lambda m, g: 0.999 * m + 0.001 * g * g, moments[1], gradient)
        moved = jax.tree.map(
            lambda p, m, v: p - lr * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8),
            params,
            first,
            second,
        )
        return moved, (first, second)

    def _probs(self, params: Any, key: Any) -> Any:
        import jax

        y = self._solve(params, self._encoded(params, None), key)
        return jax.nn.softmax(y[:, :-1] @ params["decoder"] + params["decoder.bias"])

    def probs(self, samples: int) -> np.ndarray:
        """Mean over paths.  # [N, C]"""
        import jax

        keys = jax.random.split(jax.random.fold_in(self.key, 1), samples)
        return np.mean([np.asarray(self._compiled_probs(self.params, key)) for key in keys], axis=0)

    def train(self, schedule: Schedule) -> tuple[int, float]:
        """Epochs that it took, and CPU seconds of compilation."""
        import jax
        import jax.numpy as jnp

        zeros = jax.tree.map(jnp.zeros_like, self.params)
        moments, stream, looked = (zeros, zeros), jax.random.fold_in(self.key, 2), jax.random.fold_in(self.key, 3)
        begin = time.process_time()
        arguments = (self.params, moments, stream, 1.0, schedule.lr)
        self._compiled_step = self._compiled_step.lower(*arguments).compile()
        compiled = time.process_time() - begin
        best, best_epoch, kept = math.inf, 0, self.params
        for epoch in range(1, schedule.epochs + 1):
            key = jax.random.fold_in(stream, epoch)
            self.params, moments = self._compiled_step(self.params, moments, key, float(epoch), schedule.lr)
            if epoch % schedule.every and epoch != schedule.epochs:
                continue
            probs = np.asarray(self._compiled_probs(self.params, looked))[self.validation]
            nll = -float(np.log(probs[np.arange(len(self.labels)), self.labels]).mean())
            if nll < best:
                best, best_epoch, kept = nll, epoch, self.params
            elif epoch - best_epoch >= schedule.patience:
                break
        self.params = kept
        return epoch, compiled


def _entries(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Rows, columns and values of a sparse matrix, in the order of its rows, and how many rows."""
    counts = np.diff(matrix.crow.numpy())
    rows = np.repeat(np.arange(matrix.shape[0]), counts).astype(np.int32)
    return rows, matrix.col.numpy().astype(np.int32), matrix.values.numpy(), matrix.shape[0]


def _spmm(entries: Any, dense: Any) -> Any:
    import jax

    rows, columns, values, count = entries
    return jax.ops.segment_sum(values[:, None] * dense[columns], rows, count, indices_are_sorted=True)
