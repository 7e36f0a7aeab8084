"""What the commands for new molecules and graphs share: ``predict`` and ``embed``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.cli.settings import (
    add_device,
    add_limits,
    add_ray,
    limits_of,
    positive,
    set_threads,
)

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel


def add_input(parser: argparse.ArgumentParser, out: str) -> None:
    """Adds the arguments: the model, the input, where to write (``out`` says what), and how."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument("input", type=Path, help="a table with SMILES, an archive, or graphs")
    parser.add_argument("--out", type=Path, help=out)
    parser.add_argument(
        "--smiles", metavar="COLUMN", help="column with SMILES (default: as in training)"
    )
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put ' before cells of a text file that a spreadsheet would read as formulas",
    )
    parser.add_argument("--threads", type=positive, help="PyTorch threads")
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="processes for a long table (default: one per core)",
    )
    add_ray(parser)
    add_device(parser)
    add_limits(parser)


def output_of(arguments: argparse.Namespace, default: Path) -> Path:
    """Returns the file to write. Raises an error if the default is there already."""
    if arguments.out is None and default.exists():
        raise ValueError(
            f"{default}: already exists; use --out to overwrite it or to write elsewhere"
        )
    return arguments.out or default


def open_model(arguments: argparse.Namespace) -> TrainedModel:
    """Opens the model on its device, with the threads and limits that are asked for."""
    from eigenformer.trained_model import TrainedModel

    set_threads(arguments)
    limits = limits_of(arguments)
    return TrainedModel.open(arguments.run_folder, arguments.device, limits=limits)


@contextmanager
def kept_if_stopped(out: Path) -> Iterator[None]:
    """Says what is kept of an output if the command is stopped."""
    try:
        yield
    except KeyboardInterrupt:
        if (partial := out.with_name(f"{out.name}.partial")).exists():
            print(f"{partial}: what is done; run the same command to continue", file=sys.stderr)
        raise
