"""Writes ``src/graphsde/models/options.py``: the settings of every model for type checkers.

Run after a change of settings: python studies/model_options.py
"""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from graphsde.models import MODELS
from graphsde.models.parameters import accepted_type
from graphsde.nn.settings import Settings

TARGET = Path(__file__).resolve().parents[1] / "src" / "graphsde" / "models" / "options.py"
HEAD = '''"""Keyword arguments of each model, for type checkers: a model's ``Settings`` in another form.

Written by ``studies/model_options.py``; a test compares names and types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from graphsde.models.lgnsde.settings import ConsistencySettings, Part
'''


def spelt(annotation: Any) -> str:
    """A type as it is written in code."""
    if get_origin(annotation) is Literal:
        return f"Literal[{', '.join(repr(value) for value in get_args(annotation))}]"
    if isinstance(annotation, types.UnionType) or get_origin(annotation) is Union:
        return " | ".join(spelt(one) for one in get_args(annotation))
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return "None" if annotation is type(None) else annotation.__name__
    return repr(annotation).replace("typing.", "")


def options_name(settings: type[Settings]) -> str:
    return settings.__name__.removesuffix("Settings") + "Options"


def typed_dict(settings: type[Settings]) -> str:
    above = [base for base in settings.__bases__ if issubclass(base, Settings) and base.model_fields]
    bases = ", ".join(options_name(base) for base in above) or "TypedDict"
    inherited = {name for base in above for name in base.model_fields}
    lines = [
        f"    {name}: {spelt(accepted_type(field.annotation))}"
        for name, field in settings.model_fields.items()
        if name not in inherited
    ]
    return "\n".join([f"class {options_name(settings)}({bases}, total=False):", *(lines or ["    pass"])])


def main() -> None:
    own = [name for name in MODELS if MODELS.get(name).__module__.startswith("graphsde.")]
    wanted = [one for name in own for one in reversed(MODELS.get(name).Settings.__mro__)]
    classes = [one for one in dict.fromkeys(wanted) if issubclass(one, Settings) and one.model_fields]
    TARGET.write_text("\n\n\n".join([HEAD.rstrip("\n"), *map(typed_dict, classes)]) + "\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(TARGET)], check=True)


if __name__ == "__main__":
    main()
