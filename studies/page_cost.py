"""What every panel of the page costs on a large run: CPU seconds of a first look and of a click, bytes sent.

``python -m graphsde fit synthetic:100000 --model gcn --set epochs=15 --no-controls --out RUNS/large``, then
``python studies/page_cost.py RUNS/large`` (journal: results/page/cost.txt). Needs the extra ``app``.
"""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from graphsde.runs.folder import RunFolder
from graphsde.view.app.serve import RUNS_VARIABLE

JOURNAL = Path(__file__).resolve().parents[1] / "results" / "page" / "cost.txt"


def script(panel: str) -> None:
    import importlib

    importlib.import_module(f"graphsde.view.app.panels.{panel}").panel()


def elements(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        yield from elements(child) if hasattr(child, "children") else [child]


def measured(app: AppTest, do: Callable[[], Any]) -> str:
    begin = time.process_time()
    do()
    used = time.process_time() - begin
    if app.exception or app.error:
        raise SystemExit(f"the panel failed: {[one.value for one in (*app.exception, *app.error)]}")
    sent = sum(one.proto.ByteSize() for one in elements(app.main) if getattr(one, "proto", None) is not None)
    return f"{used:6.2f} s CPU, {sent / 1000:4.0f} kB"


CLICKS: dict[str, tuple[str, Callable[[AppTest], Any]]] = {
    "node": ("wrong answers only", lambda app: app.multiselect[-1].set_value(["wrong"]).run()),
    "graph": ("a random sample", lambda app: app.selectbox(key="part").set_value("a random sample").run()),
    "decide": ("another limit", lambda app: app.select_slider(key="max error").set_value(0.1).run()),
    "label": ("an answer", lambda app: app.button(key="class 0").click().run()),
    "compare": ("nothing new", lambda app: app.run()),
}


def main() -> None:
    given = Path(sys.argv[1])
    nodes = sum(RunFolder(given).read_facts()["sizes"].values())
    lines = [
        f"# python studies/page_cost.py RUN, {datetime.date.today()}: {nodes:,} nodes, "
        f"{RunFolder(given).read_config()['model']['name']}; a panel whole, as it is sent to the browser"
    ]
    with tempfile.TemporaryDirectory() as folder:  # answers are kept beside a run
        run = Path(folder) / given.name
        shutil.copytree(given, run)
        os.environ[RUNS_VARIABLE] = folder
        for panel, (words, click) in CLICKS.items():
            app = AppTest.from_function(script, kwargs={"panel": panel}, default_timeout=600)
            app.session_state["run"], app.session_state["node"] = run.name, 77
            lines.append(f"{panel:8} first look          {measured(app, app.run)}")
            lines.append(f"{panel:8} {words:19} {measured(app, lambda app=app, click=click: click(app))}")
            lines.append(f"{panel:8} drawn again         {measured(app, app.run)}")
    JOURNAL.parent.mkdir(exist_ok=True)
    JOURNAL.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
