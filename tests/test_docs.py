"""Every Python snippet of the README and the docs runs, in the order of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
    namespace: dict[str, object] = {}
    for number, snippet in enumerate(snippets):
        exec(compile(snippet, f"{page.name}[{number}]", "exec"), namespace)
    if page.name == "README.md":
        assert namespace["attention"][0][0].shape == (8, 3, 3)  # type: ignore[index]
        assert namespace["nodes"].shape == (3, 72)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
