"""``eigenformer push``: shares a model on the Hugging Face hub."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_limits, limits_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, and where to share it."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument("repository", help="OWNER/NAME on the hub, or a folder as file:///path")
    parser.add_argument(
        "--public",
        action="store_true",
        help="let everybody read a new repository (default: only its owner)",
    )
    parser.add_argument(
        "--license", metavar="NAME", help="licence of the weights, as the hub calls it: mit, …"
    )
    parser.add_argument(
        "--no-reference",
        action="store_true",
        help="leave out what the model has seen in training, which predict --novelty needs",
    )
    add_limits(parser)


def run(arguments: argparse.Namespace) -> None:
    """Shares the model."""
    from eigenformer.hub import push

    where, names = push(
        arguments.run_folder,
        arguments.repository,
        public=arguments.public,
        license=arguments.license,
        reference=not arguments.no_reference,
        limits=limits_of(arguments),
    )
    print(f"{where}: {', '.join(names)}")
