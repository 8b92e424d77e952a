"""Mutants of a source file: every copy of it with one small mistake, read from the syntax tree.

Left out are places where a mistake changes no number: annotations, texts, error messages, assertions, decorators, what
a part is called, and tolerances against rounding (constants of at most 1e-6).
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.LtE: ast.Lt, ast.Lt: ast.LtE, ast.GtE: ast.Gt, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
TWINS = [
    ("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("argmin", "argmax"), ("floor", "ceil"), ("any", "all"),
    ("sum", "mean"), ("add", "sub"), ("add_", "sub_"), ("mul", "div"), ("mul_", "div_"), ("square", "abs"),
    ("cumsum", "cumprod"), ("log", "log1p"), ("std", "var"),
]  # fmt: skip
NAMES = {one: other for pair in TWINS for one, other in (pair, pair[::-1])} | {"sqrt": "abs"}
SYMMETRIC = {"isinstance", "getattr", "range", "zip", "isclose", "allclose", "min", "max", "minimum", "maximum"}
"""Calls whose first two arguments may change places, or are no numbers."""
WORDS = {"name", "summary", "paper", "year", "__all__"}
"""Class attributes that say what a part is, and change nothing."""
ROUNDING = 1e-6


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Args:
        path: of the source file, from the root of the project.
        function: where it is, as a dotted name; empty at the level of the module.
        line, end_line: of the expression or statement that is changed.
        operator: what kind of mistake.
        before, after: the expression or statement, right and wrong.
        start, stop: which bytes of the file are replaced.
        repeat: which one it is of those in the function that read alike.
        on_import: whether it is run when the module is imported, not when a function is called.
    """

    path: str
    function: str
    line: int
    end_line: int
    operator: str
    before: str
    after: str
    start: int
    stop: int
    repeat: int = 0
    on_import: bool = False

    @property
    def id(self) -> str:
        """The same while function, expression and change are the same, wherever in the file they stand."""
        text = "\x1f".join([self.path, self.function, self.operator, self.before, self.after, str(self.repeat)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def apply(self, source: str) -> str:
        """The source with the mistake in it."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.stop :]).decode()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines.

    Example:
        >>> [one.after for one in mutants_of("a.py", "def f(x):\\n    return x <= 3\\n")]
        ['(x < 3)', '(4)']
    """
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()
    for one in _Reader(path, source).mutants():
        key = (one.function, one.operator, one.before, one.after)
        found.append(replace(one, repeat=seen[key]))
        seen[key] += 1
    return sorted(found, key=lambda one: (one.line, one.start, one.operator, one.after))


def textual_mutant(path: str, source: str, before: str, after: str, operator: str) -> Mutant:
    """The mutant that replaces a text which is there exactly once."""
    if source.count(before) != 1:
        raise ValueError(f"{path}: {before!r} is there {source.count(before)} times; it must be there once")
    head = source.partition(before)[0]
    line = head.count("\n") + 1
    start = len(head.encode())
    end_line = line + before.count("\n")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    called = any(one.body[0].lineno <= line <= (one.end_lineno or 0) for one in functions)
    stop = start + len(before.encode())
    return Mutant(path, "", line, end_line, operator, before, after, start, stop, on_import=not called)


class _Reader:
    def __init__(self, path: str, source: str) -> None:
        self.path, self.tree = path, ast.parse(source)
        lengths = [len(line) for line in source.encode().splitlines(keepends=True)]
        self.begins = [sum(lengths[:number]) for number in range(len(lengths))]

    def mutants(self) -> Iterator[Mutant]:
        yield from self._inside(self.tree, "", False)

    def _inside(self, node: ast.AST, function: str, called: bool) -> Iterator[Mutant]:
        for child in _parts(node):
            if _changes_no_number(child):
                continue
            inner, own = function, called or (isinstance(node, ast.FunctionDef) and isinstance(child, ast.stmt))
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{function}.{child.name}".lstrip(".")
            else:
                for operator, changed in _changes(child):
                    yield replace(self._mutant(child, function, operator, changed), on_import=not own)
            yield from self._inside(child, inner, own)

    def _mutant(self, node: ast.AST, function: str, operator: str, changed: ast.AST) -> Mutant:
        assert isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.begins[node.lineno - 1] + node.col_offset
        stop = self.begins[node.end_lineno - 1] + node.end_col_offset
        after = ast.unparse(changed)
        after = f"({after})" if isinstance(changed, ast.expr) else after
        return Mutant(
            self.path, function, node.lineno, node.end_lineno, operator, ast.unparse(node), after, start, stop
        )


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.FunctionDef):
        yield from (one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None)
        yield from node.body
    elif isinstance(node, ast.ClassDef):
        yield from node.body
    elif isinstance(node, ast.AnnAssign):
        yield from [node.value] if node.value is not None else []
    else:
        yield from ast.iter_child_nodes(node)


def _changes_no_number(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Assign):
        names = [one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        return bool(names) and set(names) <= WORDS
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Each mistake that can be made at this node itself, with what it would become."""
    if isinstance(node, ast.Compare):
        for place, kind in enumerate(node.ops):
            if type(kind) in COMPARISONS:
                ops = [*node.ops[:place], COMPARISONS[type(kind)](), *node.ops[place + 1 :]]
                yield "comparison", ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BinOp):
        if type(node.op) in ARITHMETIC and not _is_text(node):
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        if isinstance(node.op, ast.Mult):
            yield "dropped factor", node.left
            yield "dropped factor", node.right
        elif isinstance(node.op, ast.Add | ast.Div | ast.Pow) and not _is_text(node):
            yield "dropped part", node.left
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield "sign", node.operand
    elif isinstance(node, ast.BoolOp):
        yield "and/or", ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.IfExp):
        yield "condition", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            yield "off by one", ast.Constant(node.value + 1)
        elif isinstance(node.value, float) and not 0 < abs(node.value) <= ROUNDING:
            yield "constant", ast.Constant(2.0 * node.value if node.value else 1.0)
    elif isinstance(node, ast.Call):
        yield from _changed_calls(node)
    elif isinstance(node, ast.If):
        return
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "removed statement", ast.Pass()
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        read = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
        if node.targets[0].id in read:
            yield "removed statement", ast.Pass()


def _changed_calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    # of the built-in functions and of math only some have a twin
    module = (
        node.func.value.id if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) else ""
    )
    bare = isinstance(node.func, ast.Name) or module == "math"
    if called in NAMES and not (bare and called not in ("min", "max", "any", "all", "floor", "ceil")):
        other = copy.deepcopy(node)
        if isinstance(other.func, ast.Attribute):
            other.func.attr = NAMES[called]
        elif isinstance(other.func, ast.Name):
            other.func.id = NAMES[called]
        yield "min/max", other
    if called == "range" and not node.keywords:
        stop = min(1, len(node.args) - 1)
        fewer = [*node.args[:stop], ast.BinOp(node.args[stop], ast.Sub(), ast.Constant(1)), *node.args[stop + 1 :]]
        yield "off by one", ast.Call(node.func, fewer, [])
    if len(node.args) >= 2 and called not in SYMMETRIC:
        first, second = node.args[:2]
        plain = not any(isinstance(one, ast.Constant | ast.Starred) for one in (first, second))
        if plain and ast.unparse(first) != ast.unparse(second):
            yield "swapped arguments", ast.Call(node.func, [second, first, *node.args[2:]], node.keywords)
    for place, keyword in enumerate(node.keywords):
        if keyword.arg in ("alpha", "keepdim", "keepdims", "ddof", "dim", "axis", "weights"):
            others = [*node.keywords[:place], *node.keywords[place + 1 :]]
            yield "dropped factor", ast.Call(node.func, node.args, others)


def _is_text(node: ast.BinOp) -> bool:
    """Whether a sum or product joins texts, lists or tuples."""
    joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    sides = [node.left, node.right]
    return any(
        isinstance(one, joined) or (isinstance(one, ast.Constant) and isinstance(one.value, str)) for one in sides
    )
