"""Adam and Adamax as torch computes them on a CPU, to the bit.

The first optimiser of ``torch.optim`` imports torch's compiler and sympy: two seconds, more than many fits take.
States have the same layout, so that either loads what the other has saved.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor


class Optimizer(ABC):
    """Steps along gradients with a state per parameter.

    Args:
        groups: dictionaries of ``params`` and, where they differ from the defaults, ``lr``, ``betas``, ``eps`` and
            ``weight_decay``, which is added to the gradient.
        lr: the learning rate.
        betas: decay of the running averages of the gradient and of its size.
        eps: keeps denominators above zero.
        weight_decay: default for groups.
    """

    moments: ClassVar[tuple[str, ...]]
    """What the state of a parameter holds besides the number of its steps; all start at zero."""

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups = [{**defaults, **group, "params": list(group["params"])} for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @abstractmethod
    def _move(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], step: float, group: dict[str, Any]) -> None:
        """Step number ``step`` of one parameter, in place."""

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state.get(param)
                if state is None:
                    # float32 on the CPU for any parameter, as in torch
                    state = {"step": torch.tensor(0.0, dtype=torch.float32)}
                    state |= {name: torch.zeros_like(param) for name in self.moments}
                    self.state[param] = state
                state["step"] += 1
                grad = param.grad
                if group["weight_decay"] != 0:
                    grad = grad.add(param, alpha=group["weight_decay"])
                self._move(param, grad, state, state["step"].item(), group)

    def zero_grad(self) -> None:
        """Clear all gradients."""
        for param in self._parameters():
            param.grad = None

    def state_dict(self) -> dict[str, Any]:
        """``state`` by the position of the parameter, and ``param_groups`` with positions for parameters."""
        place = {param: index for index, param in enumerate(self._parameters())}
        groups = [{**group, "params": [place[param] for param in group["params"]]} for group in self.param_groups]
        return {"state": {place[param]: dict(state) for param, state in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict` of parameters of the same number and shapes, whose tensors are copied."""
        parameters = self._parameters()
        sizes = [len(group["params"]) for group in saved["param_groups"]]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("the saved state has other groups of parameters")
        state: dict[Tensor, dict[str, Tensor]] = {}
        for index, entries in saved["state"].items():
            param = parameters[index]
            state[param] = {"step": torch.as_tensor(entries["step"], dtype=torch.float32).cpu().clone()}
            for name in self.moments:
                if entries[name].shape != param.shape:
                    raise ValueError(f"the saved {name} of parameter {index} has another shape")
                state[param][name] = torch.empty_like(param).copy_(entries[name])
        self.state = state
        for group, kept in zip(self.param_groups, saved["param_groups"], strict=True):
            group.update({name: kept[name] for name in ("lr", "betas", "eps", "weight_decay")})

    def _parameters(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]


class Adam(Optimizer):
    """Kingma and Ba, Adam: a method for stochastic optimization, 2015."""

    moments = ("exp_avg", "exp_avg_sq")

    def _move(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], step: float, group: dict[str, Any]) -> None:
        first, second = group["betas"]
        state["exp_avg"].lerp_(grad, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(grad, grad, value=1 - second)
        size = (state["exp_avg_sq"].sqrt() / (1 - second**step) ** 0.5).add_(group["eps"])
        param.addcdiv_(state["exp_avg"], size, value=-(group["lr"] / (1 - first**step)))


class Adamax(Optimizer):
    """Adam with the largest gradient instead of the mean square, from the same paper."""

    moments = ("exp_avg", "exp_inf")

    def _move(self, param: Tensor, grad: Tensor, state: dict[str, Tensor], step: float, group: dict[str, Any]) -> None:
        first, second = group["betas"]
        state["exp_avg"].lerp_(grad, 1 - first)
        largest = state["exp_inf"]
        torch.maximum(largest.mul_(second), grad.abs().add_(group["eps"]), out=largest)
        param.addcdiv_(state["exp_avg"], largest, value=-(group["lr"] / (1 - first**step)))


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"adam": Adam, "adamax": Adamax}
