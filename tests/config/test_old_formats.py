"""Files of older versions are read as what they meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from eigenformer.cli import main
from eigenformer.config import BenchmarkData, ConfigError, EigenformerConfig, RunConfig, load_preset
from eigenformer.config.old_formats import upgrade_card, upgrade_run
from eigenformer.model_folder import read_card
from eigenformer.training.run_folder import RunFolder

RESULTS = Path(__file__).parents[2] / "results"


def older(backend: str) -> dict[str, object]:
    """The settings of a run as they were written when the backend was part of the model."""
    preset = load_preset("zinc")
    values = RunConfig(BenchmarkData("zinc"), "zinc", preset.model, preset.training).to_dict()
    values["model"]["attention_backend"] = backend
    del values["backend"]
    return values


def test_the_backend_of_an_older_run_is_kept(tmp_path: Path) -> None:
    values = older("torch")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    config = RunFolder(tmp_path).read_config()
    assert config.backend == "torch"
    assert config.model == load_preset("zinc").model
    assert "attention_backend" in values["model"]  # what was given is not changed


def test_settings_of_today_are_left_alone() -> None:
    values = {"model": {"layers": 2}, "backend": "literal"}
    assert upgrade_run(values) == values
    assert upgrade_run({"model": None}) == {"model": None}
    assert upgrade_run(upgrade_run(older("torch"))) == upgrade_run(older("torch"))
    assert upgrade_run({"model": {"attention_backend": "torch"}, **values}) == values


def test_an_older_backend_is_checked_like_any(tmp_path: Path, capsys) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(older("torhc")))
    assert main(["train", "--config", str(tmp_path / "config.yaml")]) == 2
    assert "backend: 'torhc': unknown; the nearest is 'torch'" in capsys.readouterr().err


def test_the_backend_is_no_part_of_an_older_model() -> None:
    card = read_card(RESULTS / "zinc")
    assert card.architecture == load_preset("zinc").model
    assert upgrade_card([]) == []
    assert upgrade_card({"architecture": 3}) == {"architecture": 3}


def test_only_files_of_older_versions_may_name_it() -> None:
    with pytest.raises(ConfigError, match="attention_backend: unknown"):
        EigenformerConfig.from_dict(
            {**load_preset("zinc").model.to_dict(), "attention_backend": "torch"}
        )


@pytest.mark.parametrize(
    ("old", "new"), [(True, "gine"), (False, None), ("true", "gine"), ("gine", "gine")]
)
def test_the_local_branch_was_once_there_or_not(old: object, new: str | None) -> None:
    assert upgrade_run({"model": {"local_branch": old}}) == {"model": {"local_branch": new}}


def test_a_model_of_an_older_run_was_an_eigenformer() -> None:
    values = older("auto")
    del values["model"]["kind"]
    values["model"]["local_branch"] = False
    assert RunConfig.from_dict(upgrade_run(values)).model == load_preset("zinc").model
    card = upgrade_card({"architecture": values["model"]})
    assert card["architecture"]["kind"] == "eigenformer"
