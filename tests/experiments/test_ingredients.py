"""Which variants an ablation of ingredients has."""

from __future__ import annotations

import pytest

from eigenformer.config import ConfigError, load_preset, merge, presets
from eigenformer.experiments.ingredients import INGREDIENTS, Ingredient, part_variants


def _settings(preset: str, *chosen: str, **fixed: object) -> dict[str, dict]:
    variants = part_variants(load_preset(preset), chosen, fixed)
    return {variant.name: dict(variant.settings) for variant in variants}


def test_on_over_the_papers_preset_and_off_from_the_stronger_one():
    found = _settings("zinc", "phi_gain", "drop_path", "batch_size")
    assert found == {
        "zinc": {"preset": "zinc"},
        "zinc-with-phi_gain": {"preset": "zinc", "model": {"phi_gain": 2.45}},
        "zinc-with-drop_path": {"preset": "zinc", "model": {"drop_path": 0.1}},
        # As in the stronger preset, not half of the paper's batch.
        "zinc-with-batch_size": {"preset": "zinc", "training": {"batch_size": 64}},
        "zinc-plus": {"preset": "zinc-plus"},
        "zinc-plus-without-phi_gain": {"preset": "zinc-plus", "model": {"phi_gain": 1.0}},
        "zinc-plus-without-batch_size": {"preset": "zinc-plus", "training": {"batch_size": 128}},
    }
    assert _settings("zinc-plus", "phi_gain", "drop_path", "batch_size") == found


def test_an_ingredient_brings_what_it_needs_and_leaves_with_it(monkeypatch):
    both = {"average_weights": 0.995, "recompute_statistics": 40}
    with_average = _settings("pattern", "average_weights")["pattern-with-average_weights"]
    assert with_average["training"] == both
    # In a preset that has both, the average cannot stay without its statistics.
    plus = load_preset("pattern-plus")
    averaged = plus.replace(training={**plus.training.to_dict(), **both})
    monkeypatch.setattr("eigenformer.experiments.ingredients.stronger", lambda preset: averaged)
    found = _settings("pattern", "average_weights", "recompute_statistics")
    assert found["pattern-plus-without-average_weights"]["training"] == {"average_weights": 0.0}
    assert found["pattern-plus-without-recompute_statistics"]["training"] == dict.fromkeys(both, 0)


def test_relative_values_follow_the_settings_that_are_fixed():
    found = _settings("zinc", "ffn_width", model={"hidden_dim": 16})
    assert found["zinc-with-ffn_width"]["model"] == {"ffn_width": 32}


def test_fixed_settings_are_not_switched_unless_asked_for():
    names = _settings("pattern", training={"recompute_statistics": 3}, model={"phi_gain": 2.0})
    assert not [name for name in names if "recompute" in name or "phi_gain" in name]
    assert names["pattern-with-average_weights"]["training"] == {"average_weights": 0.995}
    assert "pattern-with-phi_gain" in _settings("pattern", "phi_gain", model={"phi_gain": 2.0})


def test_a_new_ingredient_is_one_line(monkeypatch):
    monkeypatch.setitem(INGREDIENTS, "heads", Ingredient({"model.heads": 4}))
    assert _settings("mnist")["mnist-with-heads"]["model"] == {"heads": 4}
    with pytest.raises(ConfigError, match="ingredients: 'phi_gian': .* 'phi_gain'"):
        _settings("zinc", "phi_gian")


PAPER = [
    name
    for name in presets()
    if not load_preset(name).variant_of
    and load_preset(name).model.kind == "eigenformer"
    and load_preset(name).dataset
]


def test_other_networks_have_no_such_ingredients():
    with pytest.raises(ConfigError, match="preset 'zinc-gps': only an Eigenformer"):
        part_variants(load_preset("zinc-gps"))


@pytest.mark.parametrize("name", PAPER)
def test_every_variant_of_every_preset_is_possible(name):
    variants = part_variants(load_preset(name))
    assert len(variants) > len(INGREDIENTS) / 2
    for variant in variants:
        preset = load_preset(variant.settings["preset"])
        for section in ("model", "training"):
            own = getattr(preset, section)
            changed = type(own).from_dict(
                merge(own.to_dict(), variant.settings.get(section, {})), section
            )
            assert (changed != own) == (section in variant.settings)
