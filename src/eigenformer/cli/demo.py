"""``eigenformer demo``: the whole way once, on graphs that are generated on the spot."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_folders, add_training, settings_of

DOTTED_SETTINGS = True

_SETTINGS = {
    "preset": "pattern",
    "data": {"dataset": "pattern", "size": 700},
    "model": {"layers": 4, "attention_dropout": 0.1},
    "training": {"epochs": 10, "batch_size": 16, "learning_rate": 0.001},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to write, and what to change."""
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="(default: runs/demo)")
    parser.add_argument("--seed", type=int, help="of everything random (default: 0)")
    add_training(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Trains."""
    from eigenformer.training.loop import start_run
    from eigenformer.training.planning import merge, plan
    from eigenformer.training.reporting import LineReporter
    from eigenformer.training.run_folder import RunFolder

    RunFolder.create(arguments.out)
    wanted = merge(_SETTINGS, settings_of(arguments))
    size = wanted["data"]["size"]
    print(f"demo: find the pattern hidden in random graphs (PATTERN, {size} graphs made here)")
    report = LineReporter()
    config, data = plan(wanted, arguments.raw_dir, arguments.cache_dir, report=report)
    start_run(config, data, arguments.out, report)
    print(f"next: eigenformer evaluate {arguments.out}")
