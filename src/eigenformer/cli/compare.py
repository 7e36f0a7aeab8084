"""``eigenformer compare``: trains networks on the same data, with the same effort."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.cli.settings import (
    add_folders,
    add_own_data,
    add_side_by_side,
    add_training,
    pool_of,
    settings_of,
    workspace_of,
)
from eigenformer.config import ConfigError

if TYPE_CHECKING:
    from eigenformer.experiments.comparison import Comparison


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the data, the networks, and how much effort each gets."""
    parser.add_argument("dataset", help="a benchmark, or a path to your own data")
    parser.add_argument(
        "--networks",
        nargs="+",
        default=["eigenformer", "gps", "grit", "gine"],
        metavar="NETWORK",
        help="networks or presets (default: eigenformer gps grit gine)",
    )
    parser.add_argument(
        "--hours", type=float, help="processor hours per run; sets the number of epochs to fit"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], metavar="SEED")
    add_side_by_side(parser)
    parser.add_argument("--out", type=Path, help="output folder (default: runs/compare-DATASET)")
    add_training(parser)
    add_own_data(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Trains the missing runs, prints the table, and writes it with a picture beside the runs."""
    from eigenformer.experiments.comparison import compare

    if arguments.hours is not None and arguments.hours <= 0:
        raise ConfigError(f"--hours: must be positive, got {arguments.hours}")
    out = arguments.out or Path("runs") / f"compare-{Path(arguments.dataset).name.split('.')[0]}"
    runs = len(arguments.networks) * len(arguments.seeds)
    comparison = compare(
        arguments.dataset,
        arguments.networks,
        arguments.seeds,
        out,
        settings_of(arguments),
        arguments.hours,
        pool_of(arguments, runs),
        workspace_of(arguments),
    )
    _write(comparison, out)


def _write(comparison: Comparison, out: Path) -> None:
    from eigenformer.experiments.comparison_tables import comparison_table, records
    from eigenformer.files import write_atomic

    table = comparison_table(comparison)
    write_atomic(out / "table.md", table.encode())
    write_atomic(out / "results.csv", records(comparison).encode())
    print(f"\n{table}\n{out / 'table.md'}, {out / 'results.csv'}")
    try:
        from eigenformer.plots import save_picture
        from eigenformer.plots.comparison import draw_comparison
    except ImportError as error:
        print(f"no figure: {error}")
        return
    save_picture(draw_comparison(comparison), out / "figure.svg")
    print(out / "figure.svg")
