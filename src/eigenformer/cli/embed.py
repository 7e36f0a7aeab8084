"""``eigenformer embed``: writes the embeddings of molecules, graphs or their nodes."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.new_graphs import add_input, kept_if_stopped, open_model, output_of

_OUT = Path("embeddings.csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, the input, and what to write."""
    add_input(parser, f".parquet, .npz, .csv, .tsv or .txt file to write (default: {_OUT})")
    parser.add_argument(
        "--nodes", action="store_true", help="write the embeddings of nodes instead of graphs"
    )


def run(arguments: argparse.Namespace) -> None:
    """Writes the embeddings."""
    from eigenformer.models.ensemble import Ensemble
    from eigenformer.pools import Pool
    from eigenformer.reporting import TerminalReporter
    from eigenformer.training.embedding import embed_file

    out = output_of(arguments, _OUT)
    trained = open_model(arguments)
    how = (arguments.nodes, arguments.smiles, arguments.escape_formulas)
    pool = Pool.resolve(arguments.workers, arguments.ray)
    with kept_if_stopped(out):
        counts = embed_file(trained, arguments.input, out, *how, pool, TerminalReporter())
    what = f"{trained.model.config.hidden_dim} channels per {'node' if arguments.nodes else 'row'}"
    print(f"{counts.predicted} of {counts.rows} rows embedded ({what}), written to {out}")
    if isinstance(trained.model, Ensemble):
        count = len(trained.model.members)
        print(f"embedded by the first of {count} members; give the folder of another to use it")
    if counts.predicted < counts.rows:
        print("'reason' says why the others failed")
