"""The command line as tests call it: in this process, as people and programs would."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from graphsde.cli.app import app


def graphsde(*words: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env=env)


def answer(*words: object) -> Any:
    """What a verb with ``--json`` says, once it has ended well."""
    result = graphsde(*words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
