"""Settings that older versions wrote, as they are written today: files are kept, names change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A section that has these was written as a whole, not as changes of a preset.
_WHOLE_MODEL = {"node_encoder", "out_channels", "layers", "pooling"}
# What a local branch was, when there was only one.
_LOCAL_BRANCHES = {True: "gine", False: None, "true": "gine", "false": None}


def upgrade_run(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run. ``model.attention_backend`` became ``backend``."""
    model = values.get("model")
    if not isinstance(model, Mapping):
        return values
    if "attention_backend" in model:
        values = {"backend": model["attention_backend"], **values}
    return {**values, "model": upgrade_model(model)}


def upgrade_card(values: Any) -> Any:
    """What ``model.json`` holds. The backend is how a run computes, and no part of a model."""
    architecture = values.get("architecture") if isinstance(values, Mapping) else None
    if not isinstance(architecture, Mapping):
        return values
    values = {**values, "architecture": upgrade_model(architecture)}
    return {**values, "outputs": _without_units(values.get("outputs"))}


def _without_units(outputs: Any) -> Any:
    """Only numbers have units; classes and labels had empty ones."""
    if not isinstance(outputs, Mapping):
        return outputs
    return {k: v for k, v in outputs.items() if k not in ("mean", "scale") or v}


def upgrade_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model, or some of them. There was one kind, with one local branch."""
    model = {name: value for name, value in model.items() if name != "attention_backend"}
    branch = model.get("local_branch")
    if isinstance(branch, bool | str) and branch in _LOCAL_BRANCHES:
        model["local_branch"] = _LOCAL_BRANCHES[branch]
    if set(model) >= _WHOLE_MODEL:
        model.setdefault("kind", "eigenformer")
    return model
