"""Settings that older versions wrote, as they are written today: files are kept, names change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def upgrade_run(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run. ``model.attention_backend`` became ``backend``."""
    model = values.get("model")
    if not isinstance(model, Mapping) or "attention_backend" not in model:
        return values
    return {
        "backend": model["attention_backend"],
        **values,
        "model": _without_backend(model),
    }


def upgrade_card(values: Any) -> Any:
    """What ``model.json`` holds. The backend is how a run computes, and no part of a model."""
    architecture = values.get("architecture") if isinstance(values, Mapping) else None
    if not isinstance(architecture, Mapping):
        return values
    values = {**values, "architecture": _without_backend(architecture)}
    return {**values, "outputs": _without_units(values.get("outputs"))}


def _without_units(outputs: Any) -> Any:
    """Only numbers have units; classes and labels had empty ones."""
    if not isinstance(outputs, Mapping):
        return outputs
    return {k: v for k, v in outputs.items() if k not in ("mean", "scale") or v}


def _without_backend(model: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in model.items() if name != "attention_backend"}
