"""The page of settings is the code's own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from eigenformer.config import DataConfig, EigenformerConfig, RunConfig, TrainingConfig
from eigenformer.config.reference import settings_page

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    hint = "run  python -m eigenformer.config.reference > docs/settings.md"
    assert PAGE.read_text("utf-8") == settings_page(), hint


def test_every_setting_is_on_the_page() -> None:
    page = settings_page()
    sections = {"": RunConfig, "data.": DataConfig, "model.": EigenformerConfig}
    for prefix, cls in {**sections, "training.": TrainingConfig}.items():
        for field in dataclasses.fields(cls):
            assert f"| `{prefix}{field.name}` |" in page
