"""No tensor is made where nobody said: in code that computes, every new tensor names its device."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "graphsde"
FOLDERS = ("nn", "sde", "models")
# only of code that a fit or a prediction on another device runs
MAKERS = {
    "arange", "empty", "eye", "full", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn", "randperm",
    "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros", "from_numpy", "as_tensor",
}  # fmt: skip
# what computes on the CPU alone, whatever device is asked for
ON_THE_CPU = {
    "nn/mask_stream.py": "bits are drawn on the CPU; whoever uses them moves them",
    "models/graph_gp": "float64 linear algebra with LAPACK",
    "models/logistic.py": "scipy's optimiser",
    "models/label_propagation.py": "numpy",
    "models/given.py": "a prediction that was made elsewhere",
    "models/wrapped.py": "somebody else's module, which says itself where it is",
    "models/files.py": "files are read on the CPU",
}
# functions whose tensors are moved by whoever calls them, or never leave the CPU
MOVED_LATER = {
    "nn/over_parts.py:total": "parts are on the CPU",
    "sde/brownian.py:keys_of": "parts are on the CPU",
    "models/partitioned.py:energies": "parts are on the CPU",
    "models/partitioned.py:_rows": "parts are on the CPU",
    "models/partitioned.py:_features": "parts are on the CPU",
    "models/partitioned.py:received": "parts are on the CPU",
    "models/lgnsde/batched.py:nothing": "only its width is read",
    "models/lgnsde/batched.py:_solved": "moved with the rows",
    "models/lgnsde/batched.py:_local": "the matrix is moved as a whole",
    "models/lgnsde/batched.py:solved_by_rows": "moved with the rows",
    "models/base.py:encode": "Inputs.on moves features",
    "models/sgc.py:_as_features": "features_on moves them",
    "models/bgcn_meanfield.py:_weight": "part of a module, which is moved as a whole",
    "models/ensemble.py:_common_temperature": "of predictions, which are on the CPU",
    "models/gkde.py:fit": "the learner moves the lesson",
    "models/lgnsde/model.py:respond": "where samples are gathered, on the CPU",
    "models/lgnsde/model.py:trajectories": "on the CPU",
    "models/gnsd.py:respond": "where samples are gathered, on the CPU",
    "models/passing.py:taught": "moved to the logits' device in Student.loss",
    "models/race.py:tempered": "on the CPU",
    "models/summarise.py:at": "rows of samples that are on the CPU",
    "nn/layers.py:glorot": "weights of a module, which is moved as a whole",
    "nn/optimizers.py:load_state_dict": "the number of steps is on the CPU, as torch has it",
    "nn/optimizers.py:step": "the number of steps is on the CPU, as torch has it",
    "nn/checkpoint.py:optimizer_tensors": "as they are",
    "nn/keyed_masks.py:_uniform": "of numpy's loops, which are for the CPU",
    "nn/layers.py:normal": "weights of a module, which is moved as a whole",
    "nn/layers.py:uniform": "weights of a module, which is moved as a whole",
    "nn/likelihood.py:prepare": "part of a module, which is moved as a whole",
    "nn/likelihood.py:targets": "the learner moves them",
    "nn/training.py:rows_of_masks": "the learner moves them",
    "sde/adaptive.py:integrate_adaptive": "counts of steps, on the CPU",
    "sde/drift/graph_heat.py:coefficients": "one number; whoever computes with it moves it",
    "sde/diffusion/structured.py:bind": "moved to the operator's device in the next line",
    "sde/lipschitz.py:operator_norm_bound": "the matrix is brought to the CPU",
    "sde/marginals.py:_signs": "drawn by a stream of the CPU, moved where they are used",
    "sde/marginals.py:_unit_columns": "moved where they are used",
    "models/lgnsde/last_layer.py:_projected": "drawn by a stream of the CPU, then moved",
    "models/bgcn.py:forward": "drawn by a stream of the CPU, then moved",
    "models/bgcn_meanfield.py:forward": "drawn by a stream of the CPU, then moved",
}


def homeless(tree: ast.AST) -> list[tuple[str, str]]:
    """Calls of torch that make a tensor and name no device, with the function that they are in; constructors of
    modules are left out, as modules are moved as a whole."""
    found: list[tuple[str, str]] = []

    def walk(node: ast.AST, function: str, moved: bool) -> None:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            named = moved or any(keyword.arg == "device" for keyword in node.keywords)
            if name.startswith("torch.") and name[6:] in MAKERS and not named and function != "__init__":
                found.append((function, ast.unparse(node)))
            # torch.tensor(…).float().to(device)
            moved = moved or (name.endswith(".to") and any("device" in ast.unparse(one) for one in node.args))
        for child in ast.iter_child_nodes(node):
            chained = isinstance(node, ast.Attribute) or (isinstance(node, ast.Call) and child is node.func)
            walk(child, function, moved and chained)

    walk(tree, "", False)
    return found


def checked() -> list[Path]:
    files = [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    return [p for p in files if not p.relative_to(PACKAGE).as_posix().startswith(tuple(ON_THE_CPU))]


def test_every_new_tensor_names_its_device() -> None:
    left: dict[str, list[str]] = {}
    for path in checked():
        for function, call in homeless(ast.parse(path.read_text(encoding="utf-8"))):
            left.setdefault(f"{path.relative_to(PACKAGE).as_posix()}:{function}", []).append(call)
    assert {place: calls for place, calls in left.items() if place not in MOVED_LATER} == {}
    assert set(MOVED_LATER) - set(left) == set()


def test_a_tensor_without_a_device_would_be_found() -> None:
    tree = ast.parse("def f(x):\n    a = torch.zeros(3)\n    b = torch.zeros(3).float()\n    return x + a + b")
    assert len(homeless(tree)) == 2
    fine = "def f(x):\n    a = torch.zeros(3, device=x.device)\n    return torch.tensor([1]).float().to(x.device) + a"
    assert not homeless(ast.parse(fine))
    assert len(homeless(ast.parse("torch.tensor(torch.zeros(3).sum()).to(x.device)"))) == 1
