"""``eigenformer predict``: predicts for new molecules or graphs."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.new_graphs import add_input, kept_if_stopped, open_model, output_of
from eigenformer.cli.settings import share

_OUT = Path("predictions.csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, the input, and what to write."""
    add_input(parser, f".csv, .tsv or .txt file to write; may end in .gz (default: {_OUT})")
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


def run(arguments: argparse.Namespace) -> None:
    """Writes the predictions."""
    from eigenformer.pools import Pool
    from eigenformer.reporting import TerminalReporter
    from eigenformer.training.prediction import predict_file

    out = output_of(arguments, _OUT)
    trained = open_model(arguments)
    how = (arguments.smiles, arguments.escape_formulas, arguments.interval, arguments.novelty)
    pool = Pool.resolve(arguments.workers, arguments.ray)
    with kept_if_stopped(out):
        counts = predict_file(trained, arguments.input, out, *how, pool, TerminalReporter())
    print(f"{counts.predicted} of {counts.rows} rows predicted, written to {out}")
    if counts.predicted < counts.rows:
        print("the last column says why the others failed")
