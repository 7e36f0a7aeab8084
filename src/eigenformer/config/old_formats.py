"""Upgrades settings that older versions wrote to today's names, so that old files stay readable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eigenformer.config.data import with_kind

# A section with all of these is a complete model, not changes to a preset.
_WHOLE_MODEL = {"node_encoder", "out_channels", "layers", "pooling"}
# The values of local_branch when there was only one kind.
_LOCAL_BRANCHES = {True: "gine", False: None, "true": "gine", "false": None}
# The benchmarks at the time when data settings had no kind.
_BENCHMARKS = (
    *("zinc", "mnist", "cifar10", "pattern", "cluster"),
    *("peptides-func", "peptides-struct"),
)
# The default featuriser at that time.
_FEATURIZER = "ogb"
# The type of atoms that do not occur in ZINC.
_UNKNOWN_ATOM = 21


def upgrade_run(values: dict[str, Any]) -> dict[str, Any]:
    """Upgrades the settings of a run, or a part of them.

    ``model.attention_backend`` became ``backend``, and data settings now have a ``kind``.
    """
    model, data = values.get("model"), values.get("data")
    if isinstance(model, Mapping):
        if "attention_backend" in model:
            values = {"backend": model["attention_backend"], **values}
        values = {**values, "model": upgrade_model(model)}
    return {**values, "data": _data(data)} if isinstance(data, Mapping) else values


def upgrade_card(values: Any, run: Mapping[str, Any] | None = None) -> Any:
    """Upgrades the contents of ``model.json``, the card of a model.

    The backend now belongs to the run instead of the model. What a model must know about its input
    used to be spread over the card and inferred from the name of the data.

    Args:
        values: Contents of the file.
        run: Settings of the run in the same folder, if there are any.
    """
    architecture = values.get("architecture") if isinstance(values, Mapping) else None
    if not isinstance(architecture, Mapping):
        return values
    values = {**values, "architecture": upgrade_model(architecture)}
    if "outputs" in values:  # now called the target
        values["target"] = values.pop("outputs")
    values["target"] = _without_units(values.get("target"))
    return _first_format(values, run or {}) if values.get("format") == 1 else values


def _data(values: Mapping[str, Any], own: bool = False) -> dict[str, Any]:
    """Upgrades data settings.

    ``frequencies`` became ``num_frequencies``. Settings without a kind had the fields of all kinds.

    Args:
        values: The settings.
        own: Whether the data is known to be the user's own, whatever its name.
    """
    data = {("num_frequencies" if k == "frequencies" else k): v for k, v in values.items()}
    if not _has_no_kind(data):
        return data
    benchmark = not own and data.get("dataset") in _BENCHMARKS
    if benchmark and data.get("featurizer") == _FEATURIZER:
        del data["featurizer"]  # the default of own data, which benchmarks do not have
    return with_kind(data, () if own else _BENCHMARKS)


def _has_no_kind(data: Mapping[str, Any]) -> bool:
    return "kind" not in data and {"max_bad_rows", "generator_seed"} <= set(data)


def _first_format(values: dict[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrades a card from format 1 to format 2."""
    columns = {name: values.pop(name, ()) for name in ("node_features", "edge_features")}
    values["format"] = 2
    training = run.get("training") or _preset_training(values.get("preset"))
    if training is not None:
        values["training"] = training
    if not isinstance(values.get("data"), Mapping):
        return values
    data = _data(values["data"], _is_own(values, values["data"], columns, run))
    zinc = data.get("kind") == "benchmark" and data.get("dataset") == "zinc"
    values["data"] = data
    values["input_format"] = {
        "featurizer": "zinc" if zinc else data.get("featurizer", _FEATURIZER),
        "smiles": data.get("smiles", "smiles"),
        "target_columns": data.get("targets", ()),
        **columns,
        "undirected": data.get("undirected", False),
        "num_frequencies": data.get("num_frequencies"),
        "unknown_type": _UNKNOWN_ATOM if zinc else None,
    }
    return values


def _is_own(
    card: Mapping[str, Any],
    data: Mapping[str, Any],
    columns: Mapping[str, Any],
    run: Mapping[str, Any],
) -> bool:
    """Returns whether a model was trained on own data, which may have the name of a benchmark."""
    dataset = run.get("data", {}).get("dataset", data.get("dataset"))
    if dataset not in _BENCHMARKS or run:
        return dataset not in _BENCHMARKS
    if any(columns.values()):
        return True
    try:
        _data(data)
    except ValueError:  # it has settings that only own data has
        return True
    from eigenformer.config.preset import load_preset, presets

    if card.get("preset") not in presets():
        return False
    preset = load_preset(card["preset"])
    encoders = ("node_encoder", "edge_encoder")
    theirs = {name: card["architecture"].get(name) for name in encoders}
    model = preset.model.to_dict()
    return preset.dataset != dataset or theirs != {name: model[name] for name in encoders}


def _preset_training(name: Any) -> dict[str, Any] | None:
    from eigenformer.config.preset import load_preset, presets

    return load_preset(name).training.to_dict() if name in presets() else None


def _without_units(target: Any) -> Any:
    """Removes the empty units of classes and labels: only numbers have units."""
    if not isinstance(target, Mapping):
        return target
    return {k: v for k, v in target.items() if k not in ("mean", "scale") or v}


def upgrade_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrades the settings of a model, or a part of them.

    Older versions had one kind of model, with one kind of local branch.
    """
    model = {name: value for name, value in model.items() if name != "attention_backend"}
    branch = model.get("local_branch")
    if isinstance(branch, bool | str) and branch in _LOCAL_BRANCHES:
        model["local_branch"] = _LOCAL_BRANCHES[branch]
    if set(model) >= _WHOLE_MODEL:
        model.setdefault("kind", "eigenformer")
    return model
