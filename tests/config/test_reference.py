"""The page of settings is the code's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from eigenformer.config import RunConfig
from eigenformer.config.reference import settings_page
from eigenformer.config.settings import alternatives, setting_types

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    hint = "run  python -m eigenformer.config.reference > docs/settings.md"
    assert PAGE.read_text("utf-8") == settings_page(), hint


def test_every_setting_is_on_the_page() -> None:
    page = settings_page()
    sections = setting_types(RunConfig)
    members = [("", RunConfig)]
    members += [
        (f"{name}.", cls)
        for name in ("data", "model", "training")
        for cls in alternatives(sections[name])
    ]
    for prefix, cls in members:
        for field in dataclasses.fields(cls):
            shown = f"| `{prefix}{field.name}` |"
            assert shown in page or field.name == "kind"
