"""The ingredients of models beyond the paper's, as data, and the variants they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eigenformer.config import ConfigError, EigenformerConfig, Preset, load_preset, merge, presets
from eigenformer.experiments.sweep import Variant
from eigenformer.nearest import unknown

_SECTIONS = ("model", "training")

Value = Any | Callable[[Preset], Any]
"""The value of a setting, or a function that returns it for a preset."""


@dataclass(frozen=True)
class Ingredient:
    """Settings that are switched on or off together.

    Args:
        settings: The value of each setting, by dotted name, for presets that do not choose one.
        needs: Settings without which the ingredient does not work. They are switched on with it,
            but not off.
    """

    settings: Mapping[str, Value]
    needs: Mapping[str, Value] = field(default_factory=dict)


INGREDIENTS: dict[str, Ingredient] = {
    "phi_gain": Ingredient({"model.phi_gain": 2.45}),
    "node_potentials": Ingredient({"model.node_potentials": 20}),
    "local_branch": Ingredient({"model.local_branch": "gine"}),
    "filters": Ingredient({"model.filters": lambda preset: math.gcd(preset.model.hidden_dim, 16)}),
    "last_norm": Ingredient({"model.last_norm": False}),
    "head_layers": Ingredient({"model.head_layers": 3}),
    "ffn_width": Ingredient({"model.ffn_width": lambda preset: 2 * preset.model.hidden_dim}),
    "drop_path": Ingredient({"model.drop_path": 0.1}),
    "recompute_statistics": Ingredient({"training.recompute_statistics": 40}),
    "average_weights": Ingredient(
        {"training.average_weights": 0.995}, needs={"training.recompute_statistics": 40}
    ),
    "initial_bias": Ingredient({"training.initial_bias": "targets"}),
    "batch_size": Ingredient(
        {"training.batch_size": lambda preset: max(preset.training.batch_size // 2, 1)}
    ),
    # Only if the stronger preset changes it.
    "shape": Ingredient(
        {
            "model.layers": lambda preset: preset.model.layers,
            "model.hidden_dim": lambda preset: preset.model.hidden_dim,
        }
    ),
}
"""All ingredients by name. A new one is one more line."""


@dataclass(frozen=True)
class PartVariant(Variant):
    """A preset with one ingredient switched on or off.

    Args:
        name: The name of the variant.
        settings: Its settings: the preset, and those of the ingredient.
        preset: The name of the preset that it changes.
        ingredient: The ingredient that is switched; empty for the preset itself.
        on: Whether it is switched on, not off.
    """

    preset: str = ""
    ingredient: str = ""
    on: bool = True

    @property
    def description(self) -> str:
        """What is switched, in words."""
        if not self.ingredient:
            return self.preset
        if not self.on:
            return f"without {self.ingredient}"
        values = (
            f"{name} {value}"
            for section in _SECTIONS
            for name, value in self.settings.get(section, {}).items()
        )
        return f"with {', '.join(values)}"


def stronger(preset: Preset) -> Preset | None:
    """Returns the stronger variant of one of the paper's presets; None if it has none."""
    name = f"{preset.name}-plus"
    return load_preset(name) if name in presets() else None


def part_variants(
    preset: Preset, chosen: Iterable[str] = (), fixed: Mapping[str, Any] | None = None
) -> list[PartVariant]:
    """Returns the variants of an ablation, each after the preset that it changes.

    Every ingredient is switched on over the paper's preset, and every ingredient of the stronger
    preset is switched off. An ingredient has the values of the stronger preset, or its own ones.

    Args:
        preset: One of the paper's presets, or its stronger variant.
        chosen: The names of the ingredients (default: all whose settings are not fixed).
        fixed: Settings that all variants share, by section.
    """
    if not isinstance(preset.model, EigenformerConfig):
        raise ConfigError(f"preset '{preset.name}': only an Eigenformer has these ingredients")
    fixed, names = fixed or {}, list(chosen)
    for name in names:
        if name not in INGREDIENTS:
            raise ConfigError(unknown(f"ingredients: '{name}'", name, INGREDIENTS))
    if not names:
        names = [name for name, i in INGREDIENTS.items() if not _places(fixed) & i.settings.keys()]
    plus = stronger(preset.original())
    paper, plus = _changed(preset.original(), fixed), plus and _changed(plus, fixed)
    variants = [PartVariant(paper.name, {"preset": paper.name}, paper.name)]
    for name in names:
        ingredient = INGREDIENTS[name]
        needs = {k: v for k, v in ingredient.needs.items() if k not in _places(fixed)}
        wanted = {**ingredient.settings, **needs}
        values = {place: _on(place, value, paper, plus) for place, value in wanted.items()}
        variants += _switched(paper, name, values, on=True)
    if plus is not None:
        variants.append(PartVariant(plus.name, {"preset": plus.name}, plus.name))
        for name in names:
            values = {place: _get(paper, place) for place in _switched_off(name)}
            variants += _switched(plus, name, values, on=False)
    return variants


def _switched(preset: Preset, name: str, values: dict[str, Any], on: bool) -> list[PartVariant]:
    """Returns the variant with these values; empty if the preset has them already."""
    changes = {place: value for place, value in values.items() if _get(preset, place) != value}
    if not changes.keys() & INGREDIENTS[name].settings.keys():
        return []
    settings: dict[str, Any] = {"preset": preset.name}
    for place, value in changes.items():
        section, _, setting = place.partition(".")
        settings.setdefault(section, {})[setting] = value
    title = f"{preset.name}-{'with' if on else 'without'}-{name}"
    return [PartVariant(title, settings, preset.name, name, on)]


def _switched_off(name: str) -> set[str]:
    """Returns the settings of an ingredient, and those of ingredients that need it."""
    own = set(INGREDIENTS[name].settings)
    return own.union(*(i.settings for i in INGREDIENTS.values() if own & i.needs.keys()))


def _on(place: str, value: Value, paper: Preset, plus: Preset | None) -> Any:
    if plus is not None and _get(plus, place) != _get(paper, place):
        return _get(plus, place)
    return value(paper) if callable(value) else value


def _changed(preset: Preset, fixed: Mapping[str, Any]) -> Preset:
    sections = {
        name: merge(getattr(preset, name).to_dict(), fixed.get(name, {})) for name in _SECTIONS
    }
    return preset.replace(**sections)


def _places(settings: Mapping[str, Any]) -> set[str]:
    return {f"{section}.{name}" for section in _SECTIONS for name in settings.get(section, {})}


def _get(preset: Preset, place: str) -> Any:
    section, _, name = place.partition(".")
    return getattr(getattr(preset, section), name)
