"""``eigenformer table``: prints the paper's result tables together with our runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the folder, and where to write."""
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("runs"),
        help="folder of the runs (default: runs)",
    )
    parser.add_argument("--out", type=Path, help="Markdown file to write (default: print)")


def run(arguments: argparse.Namespace) -> None:
    """Prints or writes both tables."""
    from eigenformer.experiments.paper_tables import left_out, result_tables
    from eigenformer.files import write_atomic

    text = result_tables(arguments.folder)
    if arguments.out is None:
        print(text, end="")
    else:
        write_atomic(arguments.out, text.encode("utf-8"))
    for path, reason in left_out(arguments.folder):
        print(f"not in the tables: {path} ({reason})", file=sys.stderr)
