"""``eigenformer export``: writes a model as a program that runs without Eigenformer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from eigenformer.cli.settings import add_limits, limits_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, and where to write."""
    from eigenformer.export import ExportBackend

    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("model.pt2"),
        help=".pt2 file to write (default: model.pt2)",
    )
    parser.add_argument(
        "--backend",
        choices=get_args(ExportBackend),
        default="literal",
        help="literal needs PyTorch only; torch also needs Eigenformer (default: literal)",
    )
    add_limits(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the program."""
    from eigenformer.export import export_program, save_program
    from eigenformer.trained_model import TrainedModel

    trained = TrainedModel.open(arguments.run_folder, limits=limits_of(arguments))
    program = export_program(trained.model, trained.target, arguments.backend)
    about = {
        "inputs": ["x", "edge_index", "edge_attr", "eigenvalues", "eigenvectors"],
        "outputs": list(trained.target.column_names),
        "target": trained.target.to_dict(),
        "input_format": trained.input_format.to_dict(),
    }
    save_program(program, arguments.out, about)
    print(f"{arguments.out}: {trained.target.describe()}, for one graph at a time")
