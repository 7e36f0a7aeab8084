"""``eigenformer evaluate``: how good a trained model is."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_folders, positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the graphs."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="a folder with a model")
    parser.add_argument(
        "--split", help="train, val, test or all (default: test; all of other data of your own)"
    )
    parser.add_argument("--data", help="other data, or the same in another place")
    parser.add_argument(
        "--smiles", metavar="COLUMN", help="of other data (default: as in training)"
    )
    text = "of other data (default: as in training)"
    parser.add_argument(
        "--target", "--targets", dest="targets", nargs="+", metavar="COLUMN", help=text
    )
    parser.add_argument("--threads", type=positive, help="of PyTorch")
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints the metrics, first the one that counts."""
    import torch

    from eigenformer.reporting import TerminalReporter
    from eigenformer.training.evaluation import load_folder

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    targets = None if arguments.targets is None else tuple(arguments.targets)
    columns = {"smiles": arguments.smiles, "targets": targets}
    found = load_folder(
        arguments.run_folder,
        arguments.split,
        arguments.data,
        arguments.raw_dir,
        arguments.cache_dir,
        TerminalReporter(),
        {name: value for name, value in columns.items() if value is not None},
    )
    metrics, first = found.evaluate(), found.outputs.metric
    for name in sorted(metrics, key=lambda name: name != first):
        of = f" ({len(found.graphs)} graphs)" if name == first else ""
        print(f"{found.split} {name} {metrics[name]:.6f}{of}")
