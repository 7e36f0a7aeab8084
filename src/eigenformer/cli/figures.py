"""``eigenformer figures``: draws the paper's figures from real data, as SVG, PDF or PNG."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.cli.settings import add_device, add_folders, workspace_of

if TYPE_CHECKING:
    from eigenformer.plots import Picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds one action per figure. All share the output file."""
    out = argparse.ArgumentParser(add_help=False)
    out.add_argument("--out", type=Path, help="SVG, PDF or PNG file to write (default: FIGURE.svg)")
    folders = argparse.ArgumentParser(add_help=False)
    add_folders(folders)
    figures = parser.add_subparsers(dest="figure", metavar="FIGURE", required=True)

    text = "the eigenvectors of one graph as node colours, in order of frequency"
    both = [out, folders]
    substructures = figures.add_parser("substructures", parents=both, help=text, description=text)
    substructures.add_argument(
        "graph", help="a SMILES, a path to graphs, or the name of a prepared dataset"
    )
    substructures.add_argument(
        "--index", type=int, help="which of several graphs, counted from 0 (default: 0)"
    )
    substructures.add_argument(
        "--most", type=int, default=30, help="number of eigenvectors to show (default: 30)"
    )

    text = "the mean potential of adjacent and non-adjacent nodes against the eigenvalue"
    potentials = figures.add_parser("potentials", parents=both, help=text, description=text)
    potentials.add_argument(
        "datasets", nargs="+", metavar="DATASET", help="prepared datasets, by name or path"
    )
    potentials.add_argument(
        "--limit", type=int, default=2000, help="graphs per dataset, evenly spread (default: 2000)"
    )

    text = "a graph's adjacency powers and distances, and the heads that match them best"
    attention = figures.add_parser("attention", parents=both, help=text, description=text)
    attention.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    attention.add_argument(
        "--index", type=int, default=0, help="which graph of the split (default: 0)"
    )
    add_device(attention)
    attention.add_argument("--split", default="test", help="train, val or test (default: test)")
    attention.add_argument("--data", help="other data, or a new path to the same data")
    attention.add_argument(
        "--limit", type=int, help="number of graphs for the table (default: all)"
    )

    text = "what heads and filters learned: φ₂ over the spectrum, φ₁ over the possible scores"
    filters = figures.add_parser("filters", parents=[out], help=text, description=text)
    filters.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    filters.add_argument(
        "--layer", type=int, nargs="+", help="layers, counted from 0 (default: all)"
    )
    filters.add_argument("--head", type=int, nargs="+", help="heads, counted from 0 (default: all)")

    text = "training curves of several runs in one picture"
    training = figures.add_parser("training", parents=[out], help=text, description=text)
    training.add_argument("run_folders", type=Path, nargs="+", metavar="RUN", help="run folders")

    text = "the architecture of a model: its attention and one layer, with the real shapes"
    architecture = figures.add_parser("architecture", parents=[out], help=text, description=text)
    architecture.add_argument("preset", help="a preset, or a folder with a model")


def run(arguments: argparse.Namespace) -> None:
    """Draws one figure, writes it, and prints its caption."""
    from eigenformer.plots import picture_format, save_picture

    path = arguments.out or Path(f"{arguments.figure}.svg")
    picture_format(path)  # before any long work
    picture = _DRAW[arguments.figure](arguments)
    save_picture(picture, path)
    print(f"{picture.caption}\n\n{path}")


def _substructures(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.graph_view import find_graph
    from eigenformer.analysis.substructures import substructures
    from eigenformer.plots.substructures import draw_substructures

    view = find_graph(arguments.graph, arguments.index, workspace=workspace_of(arguments))
    return draw_substructures(substructures(view, arguments.most))


def _potentials(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.potentials import cached_spectra, mean_potentials
    from eigenformer.data.archive import GraphArchive, is_archive
    from eigenformer.data.listing import find_archive, spectra_folders
    from eigenformer.data.reading import read_own
    from eigenformer.plots.potentials import draw_potentials

    workspace = workspace_of(arguments)
    found = []
    for name in arguments.datasets:
        if Path(name).exists() and not is_archive(name):
            archive = read_own(
                name, limits=workspace.limits
            ).archive  # the user's own graphs, not prepared
            found.append(mean_potentials(Path(name).name, archive, None, arguments.limit))
            continue
        folder = find_archive(name, workspace)
        archive = GraphArchive.open(folder)
        spectra = cached_spectra(archive, spectra_folders(folder, workspace))
        found.append(mean_potentials(folder.name, archive, spectra, arguments.limit))
    return draw_potentials(found)


def _attention(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.graph_view import view_graph
    from eigenformer.analysis.matches import match_graph, match_graphs, match_table, untrained
    from eigenformer.plots.attention import draw_attention
    from eigenformer.trained_model import TrainedModel

    workspace = workspace_of(arguments)
    trained = TrainedModel.open(
        arguments.run_folder, arguments.device, limits=workspace.limits
    ).alone()
    graphs = trained.graphs(workspace, arguments.split, arguments.data)
    index, count = arguments.index, len(graphs)
    if not 0 <= index < count:
        raise ValueError(f"--index {index}: {arguments.split} has {count} graphs, counted from 0")
    view = view_graph(graphs.archive, int(graphs.indices[index]))
    matches = match_graph(trained.eigenformer, graphs, index)
    learned, new = (
        match_graphs(model, graphs, arguments.limit, workspace.reporter)
        for model in (trained.eigenformer, untrained(trained.eigenformer))
    )
    print(f"The best match of each pattern over {learned.graphs} graphs of {arguments.split}:\n")
    print(match_table(learned, new), end="\n\n")
    name = f"{arguments.split} graph {index}"
    return draw_attention(matches, view.drawing, name, trained.name)


def _filters(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.filters import learned_filters
    from eigenformer.models import Model
    from eigenformer.plots.filters import draw_filters

    filters = learned_filters(Model.load(arguments.run_folder))
    name = arguments.run_folder.resolve().name
    return draw_filters(filters, name, arguments.layer, arguments.head)


def _training(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.curves import run_curves
    from eigenformer.plots.training import draw_training

    return draw_training(run_curves(arguments.run_folders))


def _architecture(arguments: argparse.Namespace) -> Picture:
    from eigenformer.analysis.architecture import architecture
    from eigenformer.plots.architecture import draw_architecture

    return draw_architecture(architecture(arguments.preset))


_DRAW = {
    "substructures": _substructures,
    "potentials": _potentials,
    "attention": _attention,
    "filters": _filters,
    "training": _training,
    "architecture": _architecture,
}
