"""``eigenformer predict``: predicts for new molecules or graphs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eigenformer.cli.settings import (
    add_device,
    add_limits,
    add_ray,
    limits_of,
    positive,
    set_threads,
    share,
)

_OUT = Path("predictions.csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, the input, and where to write."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument("input", type=Path, help="a table with SMILES, an archive, or graphs")
    parser.add_argument(
        "--out",
        type=Path,
        help=f".csv, .tsv or .txt file to write; may end in .gz (default: {_OUT})",
    )
    parser.add_argument(
        "--smiles", metavar="COLUMN", help="column with SMILES (default: as in training)"
    )
    parser.add_argument(
        "--interval",
        type=share,
        metavar="LEVEL",
        help="also write intervals that contain the truth this often, for example 0.9",
    )
    parser.add_argument(
        "--novelty",
        action="store_true",
        help="also write how unlike the training set each graph is, from 0 to 1",
    )
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put ' before cells that a spreadsheet would read as formulas",
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


def run(arguments: argparse.Namespace) -> None:
    """Writes the predictions."""
    from eigenformer.pools import Pool
    from eigenformer.reporting import TerminalReporter
    from eigenformer.trained_model import TrainedModel
    from eigenformer.training.prediction import predict_file

    out = arguments.out or _OUT
    if arguments.out is None and out.exists():
        raise ValueError(f"{out}: already exists; use --out to overwrite it or to write elsewhere")
    set_threads(arguments)
    limits = limits_of(arguments)
    trained = TrainedModel.open(arguments.run_folder, arguments.device, limits=limits)
    how = (arguments.smiles, arguments.escape_formulas, arguments.interval, arguments.novelty)
    pool = Pool.resolve(arguments.workers, arguments.ray)
    try:
        counts = predict_file(trained, arguments.input, out, *how, pool, TerminalReporter())
    except KeyboardInterrupt:
        if (partial := out.with_name(f"{out.name}.partial")).exists():
            print(f"{partial}: what is done; run the same command to continue", file=sys.stderr)
        raise
    print(f"{counts.predicted} of {counts.rows} rows predicted, written to {out}")
    if counts.predicted < counts.rows:
        print("the last column says why the others failed")
