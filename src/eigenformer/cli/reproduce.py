"""``eigenformer reproduce``: reproduces the paper's results over several seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_folders, add_training, settings_of, workspace_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the preset and the seeds."""
    parser.add_argument("preset_name", metavar="PRESET", help="a preset, see  eigenformer presets")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], metavar="SEED")
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="output folder (default: runs)"
    )
    add_training(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Trains the missing runs, then prints the result."""
    from eigenformer.experiments.reproduction import reproduce

    result = reproduce(
        arguments.preset_name,
        arguments.seeds,
        arguments.out,
        settings_of(arguments),
        workspace_of(arguments),
    )
    print(result)
