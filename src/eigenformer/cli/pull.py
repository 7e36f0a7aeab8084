"""``eigenformer pull``: takes over a model from the Hugging Face hub."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_limits, limits_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the repository, and the folder to make."""
    parser.add_argument("repository", help="OWNER/NAME on the hub, or a folder as file:///path")
    parser.add_argument("folder", type=Path, help="folder to make")
    parser.add_argument("--revision", help="branch, tag or commit (default: the newest)")
    add_limits(parser)


def run(arguments: argparse.Namespace) -> None:
    """Copies the model to a new folder."""
    from eigenformer.hub import pull

    trained = pull(arguments.repository, arguments.folder, arguments.revision, limits_of(arguments))
    what = f"{trained.model.config.title}, {trained.target.describe()}"
    print(f"{arguments.folder}: {what}")
