"""``eigenformer evaluate``: computes the metrics of a trained model."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import (
    add_device,
    add_folders,
    limits_of,
    positive,
    set_threads,
    workspace_of,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model and the graphs."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument(
        "--split", help="train, val, test or all (default: test; for other data of your own: all)"
    )
    parser.add_argument("--data", help="other data, or a new path to the same data")
    parser.add_argument(
        "--smiles",
        metavar="COLUMN",
        help="column with SMILES in other data (default: as in training)",
    )
    text = "target columns in other data (default: as in training)"
    parser.add_argument(
        "--target", "--targets", dest="targets", nargs="+", metavar="COLUMN", help=text
    )
    parser.add_argument("--threads", type=positive, help="PyTorch threads")
    add_device(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints the metrics, the main one first."""
    from eigenformer.reporting import shown
    from eigenformer.trained_model import TrainedModel

    set_threads(arguments)
    targets = None if arguments.targets is None else tuple(arguments.targets)
    columns = {"smiles": arguments.smiles, "targets": targets}
    given = {name: value for name, value in columns.items() if value is not None}
    trained = TrainedModel.open(arguments.run_folder, arguments.device, limits=limits_of(arguments))
    split = arguments.split or trained.default_split(arguments.data)
    graphs = trained.graphs(workspace_of(arguments), split, arguments.data, given)
    metrics, first = trained.evaluate(graphs), trained.target.metric
    for name in sorted(metrics, key=lambda name: name != first):
        of = f" ({len(graphs)} graphs)" if name == first else ""
        print(f"{split} {name} {shown(metrics[name], 6)}{of}")
    for target, values in trained.evaluate_each(graphs).items():
        told = ", ".join(f"{name} {shown(value, 6)}" for name, value in values.items())
        print(f"{split} {target}: {told}")
