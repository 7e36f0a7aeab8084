"""``eigenformer figures``: the paper's figures, each from real data, as SVG, PDF or PNG."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eigenformer.plots import Picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One action for each figure, with the file in common."""
    out = argparse.ArgumentParser(add_help=False)
    out.add_argument(
        "--out", type=Path, help="the ending chooses SVG, PDF or PNG (default: FIGURE.svg)"
    )
    figures = parser.add_subparsers(dest="figure", metavar="FIGURE", required=True)

    text = "what each head learned: φ₂ over the spectrum, φ₁ over the scores it can meet"
    filters = figures.add_parser("filters", parents=[out], help=text, description=text)
    filters.add_argument("run_folder", type=Path, metavar="RUN", help="a folder with a model")
    filters.add_argument("--layer", type=int, nargs="+", help="from 0 (default: all)")
    filters.add_argument("--head", type=int, nargs="+", help="from 0 (default: all)")

    text = "curves of several runs in one picture"
    training = figures.add_parser("training", parents=[out], help=text, description=text)
    training.add_argument("run_folders", type=Path, nargs="+", metavar="RUN", help="run folders")


def run(arguments: argparse.Namespace) -> None:
    """Draws one of them, writes it, and prints its caption."""
    from eigenformer.plots import picture_format, save_picture

    path = arguments.out or Path(f"{arguments.figure}.svg")
    picture_format(path)  # before any long work
    draw = {"filters": _filters, "training": _training}[arguments.figure]
    picture = draw(arguments)
    save_picture(picture, path)
    print(f"{picture.caption}\n\n{path}")


def _filters(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.filters import learned_filters
    from eigenformer.model_folder import load_model
    from eigenformer.plots.filters import draw_filters

    model, _ = load_model(arguments.run_folder)
    name = arguments.run_folder.resolve().name
    return draw_filters(learned_filters(model), name, arguments.layer, arguments.head)


def _training(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.curves import run_curves
    from eigenformer.plots.training import draw_training

    return draw_training(run_curves(arguments.run_folders))
