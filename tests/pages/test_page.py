"""The shell of all pages: whatever a text holds, it stays a text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from jinja2 import UndefinedError

from eigenformer.pages.page import make_page, packed, render, template_text

EVIL = '</script><img src="x" onerror="alert(1)"><!--<script>&amp; {{ title }} $title'


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.title = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["title"] and not self.title:
            self.title = data


def _data(page: str) -> object:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_texts_and_data_cannot_break_out() -> None:
    page = make_page(EVIL, EVIL, ("page.css",), ("explain.js",), {"name": EVIL})
    parser = _Tags()
    parser.feed(page)
    assert "img" not in parser.tags
    assert parser.tags.count("script") == 2
    assert parser.title == EVIL
    assert _data(page) == {"name": EVIL}


def test_only_the_pages_own_script_may_run_and_nothing_is_loaded() -> None:
    page = make_page("t", "", ("page.css",), ("explain.js",))
    digest = hashlib.sha256(template_text("explain.js").encode()).digest()
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}'" in page
    assert "default-src 'none'" in page
    assert "script-src 'none'" in make_page("t", "", ("page.css",))
    assert not re.search(r"""(src|href)=["'](?!data:)|@import|url\(""", page)


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    page = render("prediction.html", kind="numbers", rows=[("{{ 1 + 1 }} <b>", "", None)], more=0)
    assert "<dt>{{ 1 + 1 }} &lt;b&gt;</dt>" in page


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'rows' is undefined"):
        render("prediction.html", kind="numbers", more=0)


def test_arrays_are_packed_row_by_row() -> None:
    values = np.array([[1.5, -2.0], [0.25, 3.0]], dtype=np.float32)
    back = np.frombuffer(base64.b64decode(packed(values.T)), dtype="<f4")
    assert back.tolist() == [1.5, 0.25, -2.0, 3.0]


def test_numbers_that_are_none_do_not_get_in() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        make_page("t", "", ("page.css",), data={"value": float("nan")})
