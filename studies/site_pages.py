"""What mkdocs does beyond its own: notebooks and files at the root become pages, and links out of docs/ stay right.

Named as a hook in ``mkdocs.yml``. The pages of ``docs/`` are written for GitHub as well, so that

* a link to a file outside of ``docs/`` leads to the repository (``REPOSITORY_URL``) or, where no address is known, to a
  copy of that file in the site;
* ``CONTRIBUTING.md``, ``SECURITY.md`` and ``CHANGELOG.md`` are pages here too;
* a list or a table may follow a line of text at once, as GitHub allows and Python-Markdown does not.
"""

from __future__ import annotations

import base64
import html
import json
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
"""Files at the root that are pages of the site."""
COPIES = "repository"
"""Where copies of linked source files go."""

_FENCED = re.compile(r"^( *)(`{3,}|~{3,})[^\n]*\n.*?^\1\2[ \t]*$", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_outside: set[str] = set()


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    _outside.clear()
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    for file in [one for one in files if one.src_uri.endswith(".ipynb")]:
        text, pictures = notebook_page(posixpath.basename(file.src_uri), json.loads(file.content_string))
        files.append(File.generated(config, file.src_uri.removesuffix("ipynb") + "md", content=text))
        for name, content in pictures.items():
            place = posixpath.join(posixpath.dirname(file.src_uri), name)
            files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    origin = next((source for source, made in PAGES.items() if made == uri), f"docs/{uri}")
    return outside_fences(markdown, lambda prose: spaced(relinked(prose, origin, uri, config.repo_url or "")))


def on_post_build(*, config: MkDocsConfig) -> None:
    for inside in sorted(_outside):
        target = Path(config.site_dir) / COPIES / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / inside, target)


def outside_fences(markdown: str, change: Any) -> str:
    """``change`` of everything but code blocks."""
    parts, done = [], 0
    for block in _FENCED.finditer(markdown):
        parts += [change(markdown[done : block.start()]), block[0]]
        done = block.end()
    return "".join([*parts, change(markdown[done:])])


def relinked(prose: str, origin: str, uri: str, repository: str) -> str:
    """Links of the file ``origin`` (from the root) as they have to be on the page ``uri`` (from ``docs/``)."""
    here = posixpath.dirname(uri) or "."

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if not target or ":" in target:
            return found[0]
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        page = PAGES.get(inside) or ("index.md" if inside == "README.md" else None)
        if inside.startswith("docs/"):
            page = re.sub(r"\.ipynb$", ".md", inside.removeprefix("docs/"))
        if page is not None:
            return f"{'!' * found[0].startswith('!')}[{words}]({posixpath.relpath(page, here)}{anchor})"
        path = ROOT / inside
        if not path.exists():
            return found[0]  # mkdocs says that it leads nowhere
        if repository:
            kind = "tree" if path.is_dir() else "blob"
            return f"[{words}]({repository.rstrip('/')}/{kind}/main/{inside}{anchor})"
        if path.is_dir():
            return words
        _outside.add(inside)
        return f'<a href="{posixpath.relpath(posixpath.join(COPIES, inside), here)}">{words}</a>'

    return _LINK.sub(link, prose)


def spaced(prose: str) -> str:
    """An empty line before a list or a table that follows text."""
    lines: list[str] = []
    for line in prose.split("\n"):
        before = lines[-1] if lines else ""
        begins_list = _ITEM.match(line) and not _ITEM.match(before) and not before.startswith(" ")
        begins_table = line.startswith("|") and not before.startswith("|")
        if before.strip() and (begins_list or begins_table):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def notebook_page(name: str, notebook: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """Markdown of an executed notebook, and its pictures by file name."""
    stem, parts, pictures = name.removesuffix(".ipynb"), list[str](), dict[str, bytes]()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{stem}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![{output['metadata'].get('alt', 'What the cell draws')}]({picture})")
            elif "text/html" in data:
                parts.append(f'<div class="cell-output">{"".join(data["text/html"])}</div>')
            else:
                said = "".join(output.get("text") or data["text/plain"]).rstrip("\n")
                parts.append(f'<pre class="cell-output"><span>{html.escape(said)}</span></pre>')
    download = f'<a href="{name}" download>Download this notebook</a>'
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n{download}\n{{ .notebook-link }}\n{rest}\n", pictures
