"""Rules of the house, read from the syntax trees: who may import whom, and what is never used."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "graphsde"
ORDER = [
    "base", "graph", "io", "datasets", "nn", "sde", "prediction", "uncertainty", "metrics", "models", "acting", "runs",
    "bench", "view", "cli", "testing",
]  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))
# the one reader of pickled files: hash-checked, allow-listed (the Planetoid publications)
PICKLE_READER = PACKAGE / "datasets" / "planetoid.py"


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def floor(module_parts: tuple[str, ...]) -> int | None:
    return ORDER.index(module_parts[1]) if len(module_parts) > 1 and module_parts[1] in ORDER else None


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_folder_imports_only_what_stands_above_it(path: Path) -> None:
    inside = path.relative_to(PACKAGE).parts
    if inside[0] not in ORDER:
        # root modules are the ground; only the package's front door and __main__ look at the floors above
        if inside[0] not in ("__init__.py", "__main__.py"):
            assert not [m for m in imported_modules(path) if floor(tuple(m.split("."))) is not None]
        return
    own = ORDER.index(inside[0])
    for module in imported_modules(path):
        parts = tuple(module.split("."))
        if parts[0] == "graphsde" and (other := floor(parts)) is not None:
            assert other <= own, f"{'/'.join(inside)} ({inside[0]}) imports {module}"


def test_the_ground_floor_is_small() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", "__main__", "_version"}
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nothing_unpickles_or_evaluates(path: Path) -> None:
    tree = tree_of(path)
    modules = {m.split(".")[0] for m in imported_modules(path)}
    if path != PICKLE_READER:
        assert not modules & {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in {"eval", "exec", "compile", "torch.load", "torch.save", "yaml.load", "yaml.unsafe_load"}
            assert not any(k.arg == "allow_pickle" and ast.unparse(k.value) == "True" for k in node.keywords)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_global_random_state(path: Path) -> None:
    forbidden = {"random.seed", "torch.manual_seed", "torch.seed"}
    numpy_allowed = {
        "default_rng",
        "SFC64",
        "Generator",
        "SeedSequence",
        "RandomState",
        "get_state",
    }  # the last only looks
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in forbidden
            numpy_call = re.fullmatch(r"(?:np|numpy)\.random\.(\w+)", name)
            assert numpy_call is None or numpy_call.group(1) in numpy_allowed


def chosen_by_name(tree: ast.AST) -> list[str]:
    """Where the name of a graph decides something: compared, looked up, or kept aside to be so later."""
    deciding: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            deciding += [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            deciding.append(node.slice)
        elif isinstance(node, ast.Match):
            deciding.append(node.subject)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in {"get", "pop", "setdefault", "index", "startswith", "endswith", "entry"}:
                deciding += node.args
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            deciding += [node.value] if any(isinstance(target, ast.Name) for target in targets) else []
    bare = [one for part in deciding if part is not None for one in _bare(part)]
    return [text for one in bare if re.search(r"(^|[._])graph\.name$", text := ast.unparse(one))]


def _bare(node: ast.AST) -> list[ast.AST]:
    """What a value comes from, through ``x.lower()``, ``x if … else y``, ``x or y``, ``(x, y)``; not through text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _bare(node.func.value)
    inner = {ast.IfExp: ("body", "orelse"), ast.BoolOp: ("values",), ast.Tuple: ("elts",)}.get(type(node))
    if inner is None:
        return [node]
    parts = [getattr(node, name) for name in inner]
    return [one for part in parts for each in (part if isinstance(part, list) else [part]) for one in _bare(each)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_what_a_graph_is_called_decides_nothing(path: Path) -> None:
    tree = tree_of(path)
    assert chosen_by_name(tree) == []
    if path.relative_to(PACKAGE).as_posix() not in ("datasets/benchmarks.py", "bench/engines/ray_cluster.py"):
        # nobody else says which benchmark a graph is: the one proves it, the other hands it on
        # (whether it matters, benchmark=False, may be said anywhere)
        said = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "benchmark"]
        assert all(isinstance(value, ast.Constant) and isinstance(value.value, bool) for value in said)


@pytest.mark.parametrize(
    "line",
    [
        "x = ROWS.get(graph.name, {})", "x = ROWS[graph.name]", "if graph.name in ROWS: pass",
        "ok = 'photo' == self.graph.name.lower()", "key = graph.name if graph else ''",
        "match graph.name:\n case _: pass",
    ],
)  # fmt: skip
def test_a_choice_by_name_would_be_found(line: str) -> None:
    assert chosen_by_name(ast.parse(line))
    harmless = "x = f'{graph.name} is odd'\ny = {'name': graph.name}\nz = f(name=graph.name)\n"
    assert not chosen_by_name(ast.parse(harmless))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 600


# a concept is not ten lines: whoever is small and has one neighbour only must have a reason
SMALL_AND_ALONE = {
    "__main__": "what `python -m graphsde` runs",
    "models/citing": "knows of models and of parts, which know nothing of each other",
    "models/mc_dropout": "one file per system",
    "view/app/page": "the script that the page's framework runs",
    "view/app/panels/compare": "one file per panel",
    "view/figures/paper": "the paper's figures, from journals; the others are from predictions",
}


def test_small_files_with_one_neighbour_have_a_reason() -> None:
    importers: dict[str, set[Path]] = {}
    for path in FILES:
        for module in imported_modules(path):
            importers.setdefault(module, set()).add(path)
    found = set()
    for path in FILES:
        inside = path.relative_to(PACKAGE).with_suffix("").as_posix()
        few = len(importers.get("graphsde." + inside.replace("/", "."), set()) - {path}) <= 1
        if path.name != "__init__.py" and inside != "_version" and few and len(path.read_text().splitlines()) < 60:
            found.add(inside)
    assert found == set(SMALL_AND_ALONE)


KINDS = {"classification", "regression"}
BY_KIND = re.compile(r"^(Class|Regression)\w+$|^GaussianLikelihood$")


def branches_on_the_kind(tree: ast.AST) -> list[str]:
    """Where code asks a target, a prediction or a model of which kind it is, instead of looking up a rule."""
    found = []
    sure = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Assert) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in sure:
            continue
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            by_word = any(isinstance(one, ast.Constant) and one.value in KINDS for one in sides)
            by_scale = any(isinstance(one, ast.Attribute) and one.attr == "_target_scale" for one in sides)
            if by_word or by_scale:
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            found += [ast.unparse(node)] * bool(BY_KIND.match(ast.unparse(node.args[1]).split(".")[-1]))
    return found


def test_hardly_anybody_asks_of_which_kind_a_target_is() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {one}"
        for path in FILES
        for one in branches_on_the_kind(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(found) <= 15, "\n".join(found)
    assert branches_on_the_kind(ast.parse("if graph.target_kind == 'regression': pass"))
    assert branches_on_the_kind(ast.parse("isinstance(prediction, RegressionPrediction)"))
    names = [path.stem for path in FILES]
    assert not [name for name in names if re.search(r"numeric|_numbers$|_values$", name)]


def test_a_fit_loads_nothing_of_the_bench(tmp_path: Path) -> None:
    lines = [
        "import sys",
        f"sys.argv = ['graphsde', 'fit', 'digits', '--out', {str(tmp_path / 'run')!r}, '--set', 'epochs=1']",
    ]
    lines += ["from graphsde.cli import main", "try:", "    main()", "except SystemExit:", "    pass"]
    lines += ["own = [name for name in sys.modules if name.startswith('graphsde')]", "print('OURS', *own)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    ours = next(line for line in done.stdout.splitlines() if line.startswith("OURS")).split()[1:]
    assert not [name for name in ours if name.startswith(("graphsde.bench", "graphsde.view", "graphsde.testing"))]
    assert len(ours) <= 213


def test_the_page_on_architecture_is_right() -> None:
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", page.partition("<!-- /rooms -->")[0], flags=re.MULTILINE))
    assert list(rows) == ORDER
    for room, files in rows.items():
        real = [path.relative_to(PACKAGE / room).with_suffix("") for path in FILES if PACKAGE / room in path.parents]
        listed = [one.strip("` ") for one in files.split(",")]
        assert listed == [path.as_posix() for path in real if path.name != "__init__"], "python studies/architecture.py"


def test_the_house_stays_small() -> None:
    assert len(FILES) <= 400


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {line.split(".")[0] for line in done.stdout.splitlines()}


def test_import_is_cheap() -> None:
    heavy = {
        "torch_geometric",
        "networkx",
        "sklearn",
        "plotly",
        "pyarrow",
        "pooch",
        "matplotlib",
        "streamlit",
        "pandas",
    }
    assert not loaded_after("import graphsde") & (heavy | {"torch", "scipy"})
    assert not loaded_after("import graphsde; graphsde.GCN; graphsde.read; graphsde.load") & heavy


def test_help_needs_no_torch() -> None:
    lines = ["import sys", "sys.argv = ['graphsde', '--help']", "from graphsde.cli import main"]
    lines += ["try:", "    main()", "except SystemExit:", "    pass"]
    loaded = loaded_after("\n".join(lines))
    assert not loaded & {"torch", "scipy", "numpy", "pyarrow", "sklearn"}


def test_every_public_name_resolves() -> None:
    import graphsde

    for name in graphsde.__all__:
        assert getattr(graphsde, name) is not None
    with pytest.raises(AttributeError, match="attribute nothing"):
        graphsde.nothing  # noqa: B018


def test_every_error_code_is_in_the_docs() -> None:
    page = (PACKAGE.parents[1] / "docs" / "errors.md").read_text(encoding="utf-8")
    used = {code for path in FILES for code in re.findall(r'"(E-[A-Z0-9-]+)"', path.read_text(encoding="utf-8"))}
    assert used <= set(re.findall(r"E-[A-Z0-9-]+", page))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    root = PACKAGE.parents[1]
    for link in re.findall(r"\]\(([^)#]+)\)", (root / page).read_text(encoding="utf-8")):
        assert (root / link).exists(), link


def test_the_map_of_the_house_is_right() -> None:
    page = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE) == ORDER


def test_the_present_version_is_told_everywhere() -> None:
    import graphsde

    root = PACKAGE.parents[1]
    heading = rf"^## \[{re.escape(graphsde.__version__)}\] - \d{{4}}-\d\d-\d\d$"
    assert re.search(heading, (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert f"\nversion: {graphsde.__version__}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")
