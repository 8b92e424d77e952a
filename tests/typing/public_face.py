"""Read by mypy, never run: what a type checker must know of the public face, and what it must refuse.

An ignored error that is no error any more is one itself (``warn_unused_ignores``).
"""

import graphsde as gs

model: gs.LGNSDE = gs.LGNSDE(drift="gcn", prior=gs.prior.OU(theta=1.0), consistency={"kind": "none"}, seed=3)
gs.GCN(hidden=3, activation="none", lr=1, early_stop=False)
gs.Ensemble(base="gcn", base_settings={"hidden": 8}, members=3)

gs.GCN(hiden=3)  # type: ignore[call-arg]
gs.GCN(hidden="wide")  # type: ignore[arg-type]
gs.LGNSDE(objective="median")  # type: ignore[arg-type]
gs.GNODE(stepz=3)  # type: ignore[call-arg]
gs.MCDropout(16)  # type: ignore[call-arg]
gs.no_such_name  # type: ignore[attr-defined]  # noqa: B018


@gs.register
class Mine(gs.GCN):
    name, summary = "mine", "a registered class is still of its own type"


@gs.register.score("mine")
def mine(prediction: gs.Prediction, *, power: float = 1.0) -> list[float]:
    """so is a registered function"""
    return [power]


width: int = Mine(hidden=8).settings.hidden
values: list[float] = mine(model.predict(gs.load("digits")), power=2.0)
