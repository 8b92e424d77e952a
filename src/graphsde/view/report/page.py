"""What every report page shares: templates, style, scripts, and a policy that forbids all else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from graphsde._version import __version__


def render_page(template: str, values: Mapping[str, Any]) -> str:
    """One HTML document: no network, no other file, the same bytes for the same values.

    Args:
        template: the file's name.
        values: what it shows; ``figures`` are blocks, drawn by the page's own script.
    """
    from markupsafe import Markup

    plotly, draw = _plotly_script(), _own_file("draw.js")
    return str(
        _template(template).render(
            values,
            policy=_policy(plotly, draw),
            version=__version__,
            style=Markup(_own_file("style.css")),
            plotly=Markup(plotly),
            draw=Markup(draw),
        )
    )


def _template(filename: str) -> Any:
    import jinja2

    loader = jinja2.FunctionLoader(_own_file)
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, loader=loader).get_template(filename)


def _own_file(filename: str) -> str:
    return resources.files("graphsde.view.report").joinpath(filename).read_text(encoding="utf-8")


def _plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    # the browser hashes what it parsed, and it parses CR LF as LF
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


def _policy(*scripts: str) -> str:
    """No connection of any kind, and no script but our own: their hashes overrule 'unsafe-inline'."""
    digests = [base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'unsafe-inline' {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
