"""From options on the command line and settings files to plain settings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from eigenformer.config import ConfigError, RunConfig, parse_yaml
from eigenformer.nearest import unknown

# option: where its value goes in the settings of a run
_PLACES = {
    "preset": "preset",
    "epochs": "training.epochs",
    "batch_size": "training.batch_size",
    "lr": "training.learning_rate",
    "seed": "seed",
    "limit": "data.limit",
    "threads": "threads",
    "devices": "devices",
    "machines": "machines",
    "precision": "precision",
    "patience": "patience",
    "start": "start",
    "smiles": "data.smiles",
    "targets": "data.targets",
    "task": "data.task",
    "split_by": "data.split_by",
    "split_column": "data.split_column",
    "fractions": "data.fractions",
    "max_bad_rows": "data.max_bad_rows",
    "dataset": "data.dataset",
}
_SECTIONS = ("model", "training", "data")


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Where data is read from and kept."""
    group = parser.add_argument_group("folders")
    group.add_argument("--raw-dir", type=Path, help="raw files (or EIGENFORMER_RAW_DIR)")
    group.add_argument("--cache-dir", type=Path, help="results (or EIGENFORMER_CACHE_DIR)")


def add_training(parser: argparse.ArgumentParser) -> None:
    """What training commands have in common."""
    group = parser.add_argument_group("training (defaults: the preset's)")
    group.add_argument("--epochs", type=int, help="the warm-up shrinks or grows in proportion")
    group.add_argument("--batch-size", type=int, help="graphs per step, over all processes")
    group.add_argument("--lr", type=float, help="peak learning rate")
    group.add_argument("--limit", type=int, metavar="N", help="N graphs per split, for a look")
    group.add_argument("--patience", type=int, metavar="N", help="stop after N epochs no better")
    group.add_argument("--threads", type=int, help="of PyTorch, per process")
    group.add_argument("--devices", type=int, help="processes, or GPUs, per machine")
    group.add_argument("--machines", type=int, help="how many machines")
    group.add_argument("--precision", help="32, 64, bf16 or 16")
    group.add_argument(
        "--SECTION.NAME",
        dest="_",
        metavar="VALUE",
        help="any setting by its dotted name: --model.layers 4, --training.weight_decay 0",
    )


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that were asked for, as plain data; a settings file comes first."""
    given = vars(arguments)
    settings = _from_file(given["config"]) if given.get("config") is not None else {}
    changes: dict[str, Any] = {}
    for option, place in _PLACES.items():
        if given.get(option) is not None:
            _put(changes, place, given[option])
    for place, value in _dotted(arguments.settings):
        _put(changes, place, value)
    return _merged(settings, changes)


def _merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    old, new = settings.get("training", {}), changes.get("training", {})
    if {"epochs", "warmup_epochs"} <= set(old) and "epochs" in new and "warmup_epochs" not in new:
        new["warmup_epochs"] = old["warmup_epochs"] * new["epochs"] / old["epochs"]
    result = dict(settings)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _merged(result[key], value) if both else value
    return result


def _from_file(path: Path) -> dict[str, Any]:
    from eigenformer.training.run_folder import read_yaml

    return read_yaml(path)


def _dotted(arguments: Sequence[str]) -> list[tuple[str, Any]]:
    """``--model.layers 4`` and ``--model.layers=4``; values are read as YAML."""
    import yaml

    found, rest = [], list(arguments)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--"):
            raise ConfigError(f"'{name}': not expected here")
        name, equals, value = name[2:].partition("=")
        section = name.split(".")[0]
        if "." not in name:
            raise ConfigError(_unknown_option(name))
        if section not in _SECTIONS:
            raise ConfigError(unknown(f"--{name}", section, _SECTIONS))
        if not equals:
            if not rest:
                raise ConfigError(f"--{name}: a value is missing")
            value = rest.pop(0)
        try:
            found.append((name, parse_yaml(value)))
        except yaml.YAMLError:
            raise ConfigError(f"--{name}: '{value}' cannot be read") from None
    return found


def _unknown_option(name: str) -> str:
    sections = get_type_hints(RunConfig)
    for section in _SECTIONS:
        if name.replace("-", "_") in {field.name for field in fields(sections[section])}:
            return f"--{name}: unknown; it is --{section}.{name.replace('-', '_')}"
    options = [option.replace("_", "-") for option in _PLACES if option != "dataset"]
    return unknown(f"--{name}", name, [*options, "from", "out", "config", "resume"])


def _put(settings: dict[str, Any], place: str, value: Any) -> None:
    *sections, name = place.split(".")
    for section in sections:
        settings = settings.setdefault(section, {})
        if not isinstance(settings, dict):
            raise ConfigError(f"{place}: '{section}' is not a section")
    settings[name] = value
