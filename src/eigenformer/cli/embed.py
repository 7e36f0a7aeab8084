"""``eigenformer embed``: writes the embeddings of molecules, graphs or their nodes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eigenformer.cli.settings import (
    add_device,
    add_limits,
    add_ray,
    limits_of,
    positive,
    set_threads,
)

_OUT = Path("embeddings.csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model, the input, and where to write."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument("input", type=Path, help="a table with SMILES, an archive, or graphs")
    parser.add_argument(
        "--out",
        type=Path,
        help=f".parquet, .npz, .csv, .tsv or .txt file to write (default: {_OUT})",
    )
    parser.add_argument(
        "--nodes", action="store_true", help="write the embeddings of nodes instead of graphs"
    )
    parser.add_argument(
        "--smiles", metavar="COLUMN", help="column with SMILES (default: as in training)"
    )
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put ' before cells of a text file that a spreadsheet would read as formulas",
    )
    parser.add_argument("--threads", type=positive, help="PyTorch threads")
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="processes for a long table (default: one per core)",
    )
    add_ray(parser)
    add_device(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the embeddings."""
    from eigenformer.models.ensemble import Ensemble
    from eigenformer.pools import Pool
    from eigenformer.reporting import TerminalReporter
    from eigenformer.trained_model import TrainedModel
    from eigenformer.training.embedding import embed_file

    out = arguments.out or _OUT
    if arguments.out is None and out.exists():
        raise ValueError(f"{out}: already exists; use --out to overwrite it or to write elsewhere")
    set_threads(arguments)
    limits = limits_of(arguments)
    trained = TrainedModel.open(arguments.run_folder, arguments.device, limits=limits)
    how = (arguments.nodes, arguments.smiles, arguments.escape_formulas)
    pool = Pool.resolve(arguments.workers, arguments.ray)
    try:
        counts = embed_file(trained, arguments.input, out, *how, pool, TerminalReporter())
    except KeyboardInterrupt:
        if (partial := out.with_name(f"{out.name}.partial")).exists():
            print(f"{partial}: what is done; run the same command to continue", file=sys.stderr)
        raise
    what = f"{trained.model.config.hidden_dim} channels per {'node' if arguments.nodes else 'row'}"
    print(f"{counts.predicted} of {counts.rows} rows embedded ({what}), written to {out}")
    if isinstance(trained.model, Ensemble):
        count = len(trained.model.members)
        print(f"embedded by the first of {count} members; give the folder of another to use it")
    if counts.predicted < counts.rows:
        print("'reason' says why the others failed")
