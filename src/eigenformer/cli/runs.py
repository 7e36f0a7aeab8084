"""``eigenformer runs``: lists the runs in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.reporting import print_columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the argument: the folder."""
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("runs"),
        help="folder of the runs (default: runs)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Prints the table."""
    from eigenformer.training.overview import COLUMNS, run_rows

    print_columns([COLUMNS, *run_rows(arguments.folder)], right=(4, 5, 6, 8, 9, 10))
