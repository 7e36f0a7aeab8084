"""Reads a settings file for ``--config``, and fits it to the options that override it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from eigenformer.config import ConfigError, DataConfig, ModelConfig, NetworkConfig, RunConfig
from eigenformer.config.settings import kinds_of, setting_types
from eigenformer.config.yaml_text import line_of
from eigenformer.reporting import Reporter

# Model settings that follow from the data, and the data settings that decide them.
_OF_DATA = ("node_encoder", "edge_encoder", "out_channels", "num_descriptors")
_DECISIVE = ("dataset", "targets", "task", "featurizer", "descriptors")


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads the settings in a file. An error names the line."""
    from eigenformer.training.run_folder import read_yaml

    settings = read_yaml(path)
    try:
        RunConfig.check_part(settings)
    except ConfigError as error:
        line = line_of(path.read_text("utf-8"), str(error).partition(":")[0])
        raise ConfigError(f"{path}, line {line or 1}: {error}") from None
    return settings


def fitted(
    settings: Mapping[str, Any], changes: Mapping[str, Any], path: Path, reporter: Reporter
) -> dict[str, Any]:
    """Returns the settings of a file without those that the changes make meaningless.

    Other data have other encoders, and another kind of network has other settings. A warm-up is
    scaled in proportion to the epochs. The reporter says which settings of the file are not used.

    Args:
        settings: The settings in the file.
        changes: The settings given as options.
        path: The file.
        reporter: Says what is dropped.
    """
    settings = {name: _copied(value) for name, value in settings.items()}
    dropped = _fit_data(settings, changes.get("data", {}))
    dropped += _fit_network(settings, changes.get("model", {}).get("kind"))
    if dropped:
        reporter.notice(
            f"{path}: these settings are not used, because other data or another network was "
            f"given: {', '.join(dropped)}"
        )
    old, new = settings.get("training", {}), changes.get("training", {})
    if old.get("epochs") and "warmup_epochs" in old and "epochs" in new:
        old["warmup_epochs"] *= new["epochs"] / old["epochs"]
    return settings


def _fit_data(settings: dict[str, Any], changes: Mapping[str, Any]) -> list[str]:
    """Removes what other data than the file's make meaningless, and returns the names."""
    data, model = settings.get("data", {}), settings.get("model", {})
    before = dict(data)
    dropped = []
    if "dataset" in changes and data.pop("kind", None) not in (None, new := _kind(changes)):
        kinds = kinds_of(get_args(DataConfig))
        known, old = setting_types(kinds[new]), kinds[before["kind"]]
        defaults = {field.name: field.default for field in dataclasses.fields(old)}
        gone = {name: value for name, value in data.items() if name not in known}
        dropped += [f"data.{name}" for name in gone if not _same(gone[name], defaults[name])]
        settings["data"] = {name: value for name, value in data.items() if name in known}
    given = [name for name in _DECISIVE if name in before and name in changes]
    if not all(_same(before[name], changes[name]) for name in given):
        # Pooling is a choice, except that nodes are not pooled if they are predicted.
        names = (*_OF_DATA, *(["pooling"] if model.get("pooling") == "none" else []))
        dropped += [f"model.{name}" for name in names if model.pop(name, None)]
        # A loss of numbers is none of labels; the preset has one for each.
        dropped += ["training.loss"] if settings.get("training", {}).pop("loss", None) else []
    return dropped


def _fit_network(settings: dict[str, Any], kind: str | None) -> list[str]:
    """Removes what another kind of network does not have, and returns the names."""
    model, kinds = settings.get("model", {}), kinds_of(get_args(ModelConfig))
    if kind not in kinds or model.get("kind", kind) == kind:
        return []
    shared = setting_types(NetworkConfig)
    dropped = [f"model.{name}" for name in model if name not in (*shared, "kind")]
    kept = {name: value for name, value in model.items() if name in shared}
    settings["model"] = {**kept, "kind": kind}
    uses_backend = cast(type[NetworkConfig], kinds[kind]).uses_backend
    if not uses_backend and settings.pop("backend", "auto") != "auto":
        dropped.append("backend")
    return dropped


def _kind(changes: Mapping[str, Any]) -> str:
    from eigenformer.data.benchmarks import data_settings

    return str(data_settings({"dataset": changes["dataset"]})["kind"])


def _same(old: Any, new: Any) -> bool:
    """Whether two values of a setting are the same. Runs record absolute paths."""
    if isinstance(new, str):
        return old in (new, os.path.abspath(new))
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return list(old) == list(new)
    return bool(old == new)


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
