from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.config import RunConfig, load_preset
from eigenformer.limits import _SETTINGS, DEFAULT_LIMITS, LimitError, Limits
from eigenformer.models import model_shapes

PAGE = Path(__file__).parent.parent / "docs" / "security.md"


def test_limits_as_on_the_command_line():
    limits = Limits.parse(["atoms=20k", "file_bytes=3G", "columns=1_000", "layers=2M"])
    assert (limits.atoms, limits.file_bytes) == (20_000, 3 * 10**9)
    assert (limits.columns, limits.layers) == (1000, 2 * 10**6)
    assert limits.cells == DEFAULT_LIMITS.cells


@pytest.mark.parametrize("text", ["atoms", "atoms=", "atoms=-1", "atoms=0", "atoms=1kk", "atoms=x"])
def test_what_is_no_limit(text):
    with pytest.raises(LimitError, match="atoms"):
        Limits.parse([text])


def test_the_nearest_limit():
    with pytest.raises(LimitError, match="limits: 'colums': unknown; the nearest is 'columns'"):
        Limits.parse(["colums=3"])


def test_settings_at_any_depth():
    preset = load_preset("zinc")
    values = {"model": preset.model.replace(layers=300).to_dict(), "threads": 1}
    with pytest.raises(LimitError, match=r"model.layers: 300 exceeds the limit of 256 \(raise it"):
        DEFAULT_LIMITS.check_settings(values)
    Limits(layers=300).check_settings(values)
    with pytest.raises(LimitError, match="layers"):
        DEFAULT_LIMITS.check_settings(preset.model.replace(layers=300))


def test_limits_of_settings_have_the_names_of_settings():
    from eigenformer.cli.settings import _dotted

    names = {name.rpartition(".")[2] for name, _ in _dotted()}
    names |= {field.name for field in dataclasses.fields(RunConfig)} | {"workers", "num_outputs"}
    assert names >= _SETTINGS
    assert {field.name for field in dataclasses.fields(Limits)} >= _SETTINGS


def test_presets_are_within_all_limits():
    from eigenformer.config import presets

    for name in presets():
        DEFAULT_LIMITS.check_settings(load_preset(name))


def test_what_a_file_may_unpack_to():
    limits = Limits(file_bytes=1000, unpacked_bytes=100, unpacked_ratio=10)
    assert [limits.unpacked(size) for size in (1, 10, 50, 500)] == [100, 100, 500, 1000]
    limits.check_unpacked(500, 50)
    with pytest.raises(LimitError, match="from 50 bytes to more than the limit of 500"):
        limits.check_unpacked(501, 50)


def test_parameters_are_counted_without_memory():
    model = load_preset("zinc").model
    assert model_shapes(model)["head.bias"] == (1,)
    with pytest.raises(LimitError, match="parameters: .* exceeds the limit of 1,000"):
        model_shapes(model, Limits(parameters=1000))


def test_the_page_lists_every_limit_with_its_default():
    text = PAGE.read_text("utf-8")
    for field in dataclasses.fields(Limits):
        assert f"| `{field.name}` | {field.default:,} |" in text, field.name


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("exphormer", "expander_degree"),
        ("exphormer", "virtual_nodes"),
        ("graphormer", "max_distance"),
        ("graphormer", "max_degree"),
        ("egt", "pair_width"),
        ("egt", "max_distance"),
        ("grit", "steps"),
        ("pna", "typical_degree"),
        ("transformer", "encoding.vectors"),
    ],
)
def test_settings_of_other_networks_are_limited(kind, setting, tmp_path, capsys):
    """Each is one sentence, before any data is read."""
    out = ["--out", str(tmp_path / "run"), "--model.kind", kind]
    assert main(["train", "zinc", *out, f"--model.{setting}", "2000000000"]) == 2
    told = capsys.readouterr().err
    assert f"model.{setting}: 2,000,000,000 exceeds the limit of" in told
    assert f"--limits {setting.rpartition('.')[2]}=NUMBER" in told
