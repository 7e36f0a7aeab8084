"""What was asked for, the preset and the data → the complete settings of a run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenformer.config import (
    ConfigError,
    DataConfig,
    EigenformerConfig,
    RunConfig,
    TrainingConfig,
    load_preset,
    presets,
)
from eigenformer.data.progress import Reporter
from eigenformer.model_folder import read_card
from eigenformer.nearest import unknown
from eigenformer.training.inputs import TrainingData, encoders, is_benchmark, load_data

DEFAULT_PRESET = "zinc"
"""The trunk for one's own data."""


def plan(
    wanted: Mapping[str, Any],
    raw_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    workers: int | None = None,
    report: Reporter | None = None,
) -> tuple[RunConfig, TrainingData]:
    """Completes the settings of a run, and loads its data.

    Args:
        wanted: Settings as plain data, those of :class:`RunConfig`; what is left out comes from
            the preset, the model to start from, and the data.
        raw_dir: As for :func:`load_data`, with the rest.
        cache_dir: The same.
        workers: The same.
        report: The same.
    """
    fields = {f.name for f in dataclasses.fields(RunConfig)}
    for name in wanted:
        if name not in fields:
            raise ConfigError(unknown(name, name, fields))
    data_config = DataConfig.from_dict(wanted.get("data", {}), "data")
    if not is_benchmark(data_config.dataset) and os.path.exists(data_config.dataset):
        # So that a run can be resumed from anywhere.
        data_config = data_config.replace(dataset=os.path.abspath(data_config.dataset))
    preset = load_preset(wanted.get("preset") or _default_preset(data_config))
    _check_names(EigenformerConfig, wanted.get("model", {}), "model")
    training = _training(preset.training, wanted.get("training", {}))
    if is_benchmark(data_config.dataset) and preset.dataset != data_config.dataset:
        fitting = [name for name in presets() if load_preset(name).dataset == data_config.dataset]
        raise ConfigError(
            f"preset '{preset.name}' does not fit {data_config.dataset}: it is for "
            f"{preset.dataset}; take one of {', '.join(fitting)}"
        )
    rest = {k: v for k, v in wanted.items() if k not in ("data", "preset", "model", "training")}
    common = {"data": data_config, "preset": preset.name, "training": training, **rest}
    draft = preset.model.to_dict()
    if rest.get("start") is None:
        draft = merge(draft, wanted.get("model", {}))
    RunConfig.from_dict({**common, "model": draft})  # mistakes are found before any long work
    data = load_data(data_config, raw_dir, cache_dir, workers, report)
    base = _base_model(preset.model, data, data_config, wanted.get("start"))
    model = EigenformerConfig.from_dict(merge(base.to_dict(), wanted.get("model", {})), "model")
    check_fit(model, data, preset.name)
    return RunConfig.from_dict({**common, "model": model}), data


def check_fit(model: EigenformerConfig, data: TrainingData, name: str) -> None:
    """Raises where an architecture cannot take these graphs or give these targets."""
    from eigenformer.model import Eigenformer

    outputs = data.outputs
    if model.out_channels != outputs.num_outputs:
        raise ConfigError(
            f"the model (preset '{name}') does not fit {data.name}: it has {model.out_channels} "
            f"outputs, the data asks for {outputs.num_outputs}"
        )
    if (model.pooling == "none") != (outputs.level == "node"):
        raise ConfigError(
            f"the model (preset '{name}') does not fit {data.name}: pooling '{model.pooling}' for "
            f"targets of {outputs.level}s"
        )
    small = model.replace(layers=1, heads=1, hidden_dim=1, phi_width=1)
    try:
        Eigenformer(small).eval()(data.dataset("train").batch([0]))
    except ValueError as error:
        raise ConfigError(
            f"the model (preset '{name}') does not fit {data.name}: {error}"
        ) from None


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``, section by section; another ``kind`` starts a section anew."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(old, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            result[key] = merge(old, value)
        else:
            result[key] = value
    return result


def _default_preset(data: DataConfig) -> str:
    return data.dataset if is_benchmark(data.dataset) else DEFAULT_PRESET


def _training(base: TrainingConfig, changes: Mapping[str, Any]) -> TrainingConfig:
    _check_names(TrainingConfig, changes, "training")
    epochs = changes.get("epochs")
    if isinstance(epochs, int) and epochs > 0 and "warmup_epochs" not in changes:
        base = base.with_epochs(epochs)  # the warm-up shrinks in proportion
    return TrainingConfig.from_dict(merge(base.to_dict(), changes), "training")


def _check_names(cls: type, values: Mapping[str, Any], path: str) -> None:
    """Misspelt settings are found before any data is loaded."""
    names = [f.name for f in dataclasses.fields(cls)]
    for key in values:
        if key not in names:
            raise ConfigError(unknown(f"{path}.{key}", str(key), names))


def _base_model(
    preset: EigenformerConfig, data: TrainingData, config: DataConfig, start: str | None
) -> EigenformerConfig:
    """The trunk of the preset, or of the model to start from; the rest as the data asks."""
    base = preset if start is None else read_card(start).architecture
    if is_benchmark(config.dataset):
        return base.replace(
            node_encoder=preset.node_encoder,
            edge_encoder=preset.edge_encoder,
            out_channels=preset.out_channels,
            pooling=preset.pooling,
        )
    nodes, edges = encoders(data.archive)
    pooling = base.pooling
    if data.outputs.level == "node":
        pooling = "none"
    elif pooling == "none":
        pooling = "mean"
    return base.replace(
        node_encoder=nodes,
        edge_encoder=edges,
        out_channels=data.outputs.num_outputs,
        pooling=pooling,
    )
