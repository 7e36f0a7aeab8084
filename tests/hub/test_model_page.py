"""The README of a shared model says what is known of it, and nothing that could be code."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from eigenformer import TrainedModel
from eigenformer.hub.model_page import model_page
from eigenformer.model_folder import read_card, write_card
from eigenformer.training.run_folder import RunFolder


def page_of(folder: Path, license: str | None = None) -> str:
    return model_page(folder, TrainedModel.open(folder), "logp", "me/logp", license)


def test_figures_settings_and_use(run: Path) -> None:
    page, summary = page_of(run, "cc-by-4.0"), RunFolder(run).read_summary()
    _, front, body = page.split("---\n", 2)
    assert yaml.safe_load(front)["license"] == "cc-by-4.0"
    assert yaml.safe_load(front)["library_name"] == "eigenformer"
    assert f"| val | mae | {summary['best_validation']:.4g} | 6 |" in body
    for name, value in summary["test_metrics"].items():
        assert f"| test | {name} | {value:.4g} | 6 |" in body
    assert "predicts graph regression \\(weight\\)" in body
    assert "graphs: train 48, val 6, test 6" in body
    assert f"{summary['parameters']:,} parameters" in body
    assert "eigenformer pull me/logp model" in body
    assert "MIT licence" in body
    blocks = re.findall(r"```yaml\n(.*?)```", body, re.S)
    architecture, training = map(yaml.safe_load, blocks)
    card = read_card(run)
    assert architecture["hidden_dim"] == card.architecture.hidden_dim
    assert training["epochs"] == 3
    assert str(run.parent) not in page


def test_without_a_summary_and_a_licence(run: Path, tmp_path: Path) -> None:
    for name in ("model.safetensors", "model.json"):
        shutil.copy(run / name, tmp_path)
    page = page_of(tmp_path)
    assert "has no figures" in page
    assert "license:" not in page
    assert "The weights are shared under" not in page


def test_names_are_texts(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    card = read_card(folder)
    assert card.target is not None
    evil = "w\n\n# <script>|`x`"
    write_card(folder, replace(card, target=replace(card.target, names=(evil,))))
    summary = RunFolder(folder).read_summary()
    (folder / "summary.json").write_text(json.dumps({**summary, "metric": "m|<b>"}))
    page = page_of(folder)
    assert "<script>" not in page
    assert "m\\|\\<b\\>" in page
    assert "\n# w" not in page.replace("# logp", "")


def test_a_damaged_summary_is_an_error(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "summary.json").write_text("[")
    with pytest.raises(ValueError, match="damaged"):
        page_of(folder)
