"""``eigenformer explain``: writes a page about one graph as a trained model sees it."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_device, add_folders, workspace_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, the graph, and where to write."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument(
        "input",
        help="a SMILES, a table or folder of graphs, a dataset, or the run's train, val or test",
    )
    parser.add_argument(
        "--index", type=int, help="which of several graphs, counted from 0 (default: 0)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("explain.html"),
        help="HTML file to write (default: explain.html)",
    )
    parser.add_argument(
        "--attribution",
        nargs="+",
        default=[],
        metavar="METHOD",
        help="also show what each node contributes: occlusion (and each edge), gradients",
    )
    parser.add_argument(
        "--output",
        metavar="NAME",
        help="output to attribute (default: the most probable class, or the first output)",
    )
    add_device(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the page."""
    from eigenformer.analysis.explanation import explain
    from eigenformer.pages import explain_page, explain_remark, save_page
    from eigenformer.trained_model import TrainedModel

    workspace = workspace_of(arguments)
    trained = TrainedModel.open(arguments.run_folder, arguments.device, limits=workspace.limits)
    how = (arguments.attribution, arguments.output)
    explanation = explain(trained, arguments.input, arguments.index, workspace, *how)
    save_page(explain_page(explanation), arguments.out)
    print(f"{explanation.view.name}: {arguments.out}")
    if remark := explain_remark(explanation):
        print(remark)
