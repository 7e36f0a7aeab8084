"""``eigenformer runs``: what was trained."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder."""
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("runs"), help="(default: runs)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Prints the table."""
    from eigenformer.training.overview import COLUMNS, run_rows

    rows = [COLUMNS, *run_rows(arguments.folder)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in (3, 4, 5, 7, 8, 9) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
