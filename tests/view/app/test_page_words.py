from __future__ import annotations

import re

import numpy as np
import pytest
from hostile_names import HOSTILE

from graphsde.base.errors import BadInput
from graphsde.view.app.words import error_in_words, in_html, in_markdown, plain


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_become_plain_text(name: str) -> None:
    assert len(plain(name)) <= 60 and plain(name).isprintable()
    assert not re.search("[<>\"']", in_html(name))
    # in Markdown every mark is escaped: nothing is left that could begin a construct
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`\[\]()<>$#:!|~{}]", in_markdown(name).replace(r"\\", ""))
    assert "://" not in in_markdown(name).replace("\\", "")


def test_numbers_and_text_of_numpy_are_names_too() -> None:
    assert plain(np.int64(7)) == "7" and plain(np.str_("a")) == "a" and plain(None) == "None"


def test_errors_are_told_in_words() -> None:
    assert error_in_words(BadInput("no", code="E-EMPTY", fix="more")) == "E-EMPTY: no. Fix: more."
    assert error_in_words(OSError(28, "No space left on device")).startswith("E-IO: No space left")
    assert error_in_words(MemoryError()).startswith("E-MEM")
    text = error_in_words(KeyError("<b>\x1b[31m"))
    assert text.startswith("E-INTERNAL: KeyError") and "\x1b" not in text and "Traceback" not in text
