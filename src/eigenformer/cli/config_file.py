"""Reads a settings file for ``--config``, and fits it to the options that override it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from eigenformer.config import ConfigError, DataConfig, NetworkConfig, RunConfig
from eigenformer.config.settings import kinds_of, setting_types
from eigenformer.config.yaml_text import line_of
from eigenformer.reporting import Reporter

# Model settings that follow from the data.
_OF_DATA = ("node_encoder", "edge_encoder", "out_channels")


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

    Another dataset has other encoders, and another kind of network has other settings. The
    reporter says which settings of the file are not used.

    Args:
        settings: The settings in the file.
        changes: The settings given as options.
        path: The file.
        reporter: Says what is dropped.
    """
    data, model = dict(settings.get("data", {})), dict(settings.get("model", {}))
    warmup = _warmup(settings.get("training", {}), changes.get("training", {}))
    dropped: list[str] = []
    dataset = changes.get("data", {}).get("dataset")
    if dataset is not None:
        kind = data.pop("kind", None)
        new = _data_kind(dataset)
        if kind not in (None, new):
            known = setting_types(kinds_of(get_args(DataConfig))[new])
            dropped += [f"data.{name}" for name in data if name not in known]
            data = {name: value for name, value in data.items() if name in known}
        if not _same(data.get("dataset", dataset), dataset):
            names = [*_OF_DATA, *(["pooling"] if model.get("pooling") == "none" else [])]
            dropped += [f"model.{name}" for name in names if model.pop(name, None) is not None]
    kind = changes.get("model", {}).get("kind")
    if kind is not None and kind != model.get("kind", kind):
        shared = setting_types(NetworkConfig)
        dropped += [f"model.{name}" for name in model if name not in (*shared, "kind")]
        model = {name: value for name, value in model.items() if name in shared}
        model["kind"] = kind
    if dropped:
        reporter.notice(
            f"{path}: these settings are not used, because another dataset or network was given: "
            f"{', '.join(dropped)}"
        )
    sections = {"data": data, "model": model, "training": warmup}
    return {**settings, **{name: value for name, value in sections.items() if value}}


def _same(old: str, new: str) -> bool:
    """Whether two names of data are the same benchmark or path. Runs record absolute paths."""
    return old in (new, os.path.abspath(new))


def _data_kind(dataset: str) -> str:
    from eigenformer.data.benchmarks import data_settings

    return str(data_settings({"dataset": dataset})["kind"])


def _warmup(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the training settings of a file, with a warm-up in proportion to new epochs."""
    if not (old.get("epochs") and "warmup_epochs" in old and "epochs" in new):
        return dict(old)
    return {**old, "warmup_epochs": old["warmup_epochs"] * new["epochs"] / old["epochs"]}
