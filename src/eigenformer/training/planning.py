"""Completes the settings of a run from the user's settings, the preset and the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast, get_args

import numpy as np

from eigenformer.config import (
    BenchmarkData,
    ConfigError,
    DataConfig,
    ModelConfig,
    NetworkConfig,
    OwnData,
    Preset,
    RunConfig,
    TrainingConfig,
    load_preset,
    merge,
    presets,
)
from eigenformer.config.old_formats import upgrade_run
from eigenformer.config.settings import kinds_of, setting_types
from eigenformer.data.archive import GraphArchive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.benchmarks import data_settings
from eigenformer.data.errors import DataError
from eigenformer.data.workspace import Workspace
from eigenformer.devices import resolve_device
from eigenformer.files import check_path
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.model_folder import read_card
from eigenformer.models import build_model, model_shapes
from eigenformer.nearest import unknown
from eigenformer.pretrained import NEW_WEIGHTS, PRETRAINED, model_folder_of
from eigenformer.targets import Target
from eigenformer.training.features import encoders, num_descriptors, unused_fields
from eigenformer.training.loading import TrainingData, load_data

DEFAULT_PRESET = "molecules"
"""The preset that is used for the user's own data, and for benchmarks without a preset."""

# The model settings that weights to start from need not share: the head is new for every task.
_FREE = (
    *("out_channels", "num_descriptors", "pooling", "head_layers"),
    *("dropout", "attention_dropout", "drop_path", "frequency_fraction", "frequency_draw"),
)

# The model settings that depend on the data, not on the trunk.
_OF_DATA = ("node_encoder", "edge_encoder", "out_channels", "pooling", "num_descriptors")


def plan(
    wanted: Mapping[str, Any], workspace: Workspace | None = None
) -> tuple[RunConfig, TrainingData]:
    """Completes the settings of a run and loads its data.

    Args:
        wanted: The settings of :class:`RunConfig` as plain data. Missing settings are taken from
            the preset, the model to start from, and the data.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
    """
    workspace = workspace or Workspace.resolve()
    wanted = check_settings(wanted, workspace)
    data_config = _data_config(wanted.get("data", {}))
    start = wanted.get("start")
    if start == NEW_WEIGHTS:
        start = None
    # Absolute paths, so that a run can be resumed from any folder.
    if isinstance(data_config, OwnData) and os.path.exists(data_config.dataset):
        check_path(data_config.dataset)
        data_config = data_config.replace(dataset=os.path.abspath(data_config.dataset))
    if start is not None and start not in PRETRAINED:
        start = os.path.abspath(start)
    preset = load_preset(_preset_name(wanted))
    _check_preset(preset, data_config)
    training = _training(preset.training, wanted.get("training", {}))
    patience = wanted.get("patience", preset.patience)
    sections: dict[str, Any] = {
        "data": data_config,
        "preset": preset.name,
        "training": training,
        "start": start,
        "patience": patience,
    }
    trunk = preset.model if start is None else _architecture(start, workspace.limits)
    changes = wanted.get("model", {})
    if start is not None:
        check_start(start, trunk, changes.get("kind", trunk.kind))
    trunk = of_kind(trunk, changes.get("kind", trunk.kind))
    draft = merge(trunk.to_dict(), {k: v for k, v in changes.items() if k not in _OF_DATA})
    drafted = RunConfig.from_dict({**wanted, **sections, "model": draft})
    resolve_device(drafted.device)
    data = load_data(data_config, workspace, *drafted.model.needs)
    reporter = workspace.reporter
    if isinstance(data_config, OwnData):
        task = data.target.describe()
        told = "" if data_config.task else ", inferred from the target values (--task overrides it)"
        reporter.say(f"task: {task}{told}")
    for split in ("train", "val"):
        if not len(data.splits[split]):
            counts = ", ".join(f"{name} {len(graphs)}" for name, graphs in data.splits.items())
            raise DataError(
                f"{data_config.dataset}: no graphs in the split '{split}' ({counts}); training "
                f"needs graphs in train and in val: use more data or other --fractions"
            )
        if doubt := data.target.doubt(data.targets(split)):
            reporter.notice(f"{data.name}: in the split '{split}', {doubt}")
    for split in ("val", "test"):
        for name in _without_values(data, split):
            reporter.notice(
                f"{data.name}: in the split '{split}', '{name}' has no values, so it has no metric"
            )
    if isinstance(data_config, OwnData) and (unused := unused_fields(data.archive)):
        reporter.notice(f"{data.name}: {unused}")
    graphs = len(data.splits["train"])
    base = _fitted(trunk, preset, data_config, data)
    model = type(base).from_dict(merge(base.to_dict(), changes), "model")
    model_shapes(model, workspace.limits)  # not too large to build
    check_fit(model, data, f"the model (preset '{preset.name}')")
    if "start" not in wanted:
        sections["start"], reason = default_start(preset, model)
        if reason:
            reporter.notice(f"the preset's pretrained weights are not used: {reason}")
    changes = wanted.get("training", {})
    sections["training"] = fit_training(preset, changes, graphs, data.target, sections["start"])
    return RunConfig.from_dict({**wanted, **sections, "model": model}), data


def _without_values(data: TrainingData, split: str) -> list[str]:
    """Returns which of several targets have no value in a split with graphs."""
    values = data.targets(split)
    if not len(values) or values.ndim < 2 or values.shape[1] < 2:
        return []
    rows = values.reshape(len(values), -1)
    known = np.asarray(data.target.known(rows))
    names = enumerate(data.target.column_names)
    return [name for column, name in names if not known[:, column].any()]


def check_settings(wanted: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Returns the user's settings in the current format. Finds mistakes before any long work."""
    wanted = _with_kind(upgrade_run(dict(wanted)))
    RunConfig.check_part(wanted)
    workspace.limits.check_settings(wanted)
    _training(load_preset(_preset_name(wanted)).training, wanted.get("training", {}))
    return wanted


def run_name(wanted: Mapping[str, Any]) -> str:
    """Returns the name of the folder of a run with these settings."""
    wanted = _with_kind(wanted)
    name, preset = _data_config(wanted["data"]).name, _preset_name(wanted)
    kind = wanted.get("model", {}).get("kind", "")
    if preset in presets() and kind == load_preset(preset).model.kind:
        kind = ""  # the preset says it
    return "-".join(filter(None, (name, preset, kind, f"seed{wanted.get('seed', 0)}")))


def check_fit(model: NetworkConfig, data: TrainingData, name: str) -> None:
    """Raises an error if an architecture does not fit the graphs or the target.

    Args:
        model: The architecture.
        data: The graphs.
        name: How the error calls the model.
    """
    target = data.target
    if model.out_channels != target.width:
        raise ConfigError(
            f"{name} does not fit {data.name}: it has {model.out_channels} "
            f"outputs, expected {target.width}"
        )
    if (model.pooling == "none") != target.of_nodes:
        raise ConfigError(
            f"{name} does not fit {data.name}: pooling '{model.pooling}' "
            f"cannot be used for {'node' if target.of_nodes else 'graph'} targets"
        )
    try:
        try_model(model, data.dataset("all"))
    except ValueError as error:
        raise ConfigError(f"{name} does not fit {data.name}: {error}") from None


def try_model(model: NetworkConfig, graphs: GraphDataset) -> None:
    """Raises an error if a tiny model of this architecture cannot process the first graph."""
    build_model(model.tiny()).eval()(graphs.batch([0]))


def fit_trunk(trunk: ModelConfig, archive: GraphArchive, target: Target) -> ModelConfig:
    """Returns the trunk with encoders and a head that fit the graphs and the target."""
    nodes, edges = encoders(archive)
    pooling = trunk.pooling
    if target.of_nodes:
        pooling = "none"
    elif pooling == "none":
        pooling = "mean"
    return trunk.replace(
        node_encoder=nodes,
        edge_encoder=edges,
        out_channels=target.width,
        pooling=pooling,
        num_descriptors=num_descriptors(archive),
    )


def fit_training(
    preset: Preset,
    changes: Mapping[str, Any],
    graphs: int,
    target: Target,
    start: str | None = None,
) -> TrainingConfig:
    """Returns the preset's training settings with some changes, fitted to the training graphs.

    ``start`` is what the training starts from.
    """
    training = _training(preset.training_from(start), changes)
    if "epochs" not in changes:
        training = preset.schedule(training, graphs)
    if "loss" not in changes and not target.losses:  # the preset's loss is one of numbers
        training = training.replace(loss=None)
    target.learned(training.loss, training.class_balance)  # raises an error if it cannot be
    return training


def _with_kind(wanted: Mapping[str, Any]) -> dict[str, Any]:
    data = wanted.get("data")
    return {**wanted, "data": data_settings(data)} if isinstance(data, Mapping) else dict(wanted)


def _data_config(values: Mapping[str, Any]) -> DataConfig:
    if "kind" not in values:
        raise ConfigError("data.dataset: missing, and it has no default")
    member = kinds_of(get_args(DataConfig))[values["kind"]]
    return cast(DataConfig, member.from_dict(values, "data"))


def _preset_name(wanted: Mapping[str, Any]) -> str:
    data = _data_config(wanted.get("data", {}))
    has_preset = isinstance(data, BenchmarkData) and data.dataset in presets()
    return wanted.get("preset") or (data.dataset if has_preset else DEFAULT_PRESET)


def _check_preset(preset: Preset, data: DataConfig) -> None:
    if isinstance(data, BenchmarkData) and preset.dataset != data.dataset:
        fitting = [name for name in presets() if load_preset(name).dataset == data.dataset]
        if not fitting:  # a benchmark without presets is treated like the user's own data
            return
        raise ConfigError(
            f"preset '{preset.name}' does not fit {data.dataset}: it is for "
            f"{preset.dataset or 'your own data'}; "
            f"use one of {', '.join(fitting)}"
        )


def _training(base: TrainingConfig, changes: Mapping[str, Any]) -> TrainingConfig:
    epochs = changes.get("epochs", 0)
    if epochs > 0 and "warmup_epochs" not in changes:
        base = base.with_epochs(epochs)  # the warm-up shrinks in proportion
    return TrainingConfig.from_dict(merge(base.to_dict(), changes), "training")


def default_start(preset: Preset, model: ModelConfig) -> tuple[str | None, str]:
    """Returns the weights that trainings with a preset start from, or else why not.

    There is nothing to say if the preset has none, or if the graphs or the network are others.
    """
    if preset.start is None:
        return None, ""
    theirs, ours = _architecture(preset.start).to_dict(), model.to_dict()
    if any(theirs[part] != ours[part] for part in ("kind", "node_encoder", "edge_encoder")):
        return None, ""
    for name in dict.fromkeys([*ours, *theirs]):
        if name not in _FREE and theirs.get(name) != ours.get(name):
            return None, f"they have model.{name} {theirs.get(name)}, not {ours.get(name)}"
    return preset.start, ""


def _architecture(start: str, limits: Limits = DEFAULT_LIMITS) -> ModelConfig:
    return read_card(model_folder_of(start), limits).architecture


def check_start(start: str, trunk: ModelConfig, kind: str) -> None:
    """Raises an error if the model to start from is a network of another kind."""
    if kind != trunk.kind:
        raise ConfigError(
            f"start: {start} has the weights of a network of kind {trunk.kind}, which do not fit "
            f"model.kind {kind}; leave out one of the two"
        )


def of_kind(trunk: ModelConfig, kind: str) -> ModelConfig:
    """Returns a network of this kind, with those of the trunk's settings that all networks have."""
    if kind == trunk.kind:
        return trunk
    kinds, kept = kinds_of(get_args(ModelConfig)), trunk.to_dict()
    if kind not in kinds:
        raise ConfigError(unknown(f"model.kind: '{kind}'", kind, kinds))
    values = {name: kept[name] for name in setting_types(NetworkConfig)}
    member = kinds[kind]
    return cast(ModelConfig, member.from_dict(values, "model"))


def _fitted(
    trunk: ModelConfig, preset: Preset, config: DataConfig, data: TrainingData
) -> ModelConfig:
    """Returns the trunk with the preset's encoders and head, or with those that fit other data."""
    if isinstance(config, BenchmarkData) and config.dataset == preset.dataset:
        return trunk.replace(**{name: getattr(preset.model, name) for name in _OF_DATA})
    return fit_trunk(trunk, data.archive, data.target)
