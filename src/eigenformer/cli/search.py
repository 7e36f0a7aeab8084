"""``eigenformer search``: looks for settings that do well on your data."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from eigenformer.cli.settings import (
    add_folders,
    add_own_data,
    add_side_by_side,
    add_training,
    pool_of,
    positive,
    settings_of,
    workspace_of,
)
from eigenformer.config import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the data, the number of trials, and where they are recorded."""
    parser.add_argument("dataset", help="a benchmark, or a path to your own data")
    parser.add_argument(
        "--trials", type=positive, default=50, help="number of trials (default: 50)"
    )
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="database of the trials, to share it with other machines (default: a file in --out)",
    )
    parser.add_argument(
        "--preset", help="a preset to start from (default: the benchmark's; else molecules)"
    )
    parser.add_argument("--seed", type=int, help="random seed (default: 0)")
    parser.add_argument("--out", type=Path, help="output folder (default: runs/search-DATASET)")
    add_side_by_side(parser)
    add_training(parser)
    add_own_data(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Runs the missing trials, and writes the best settings, a table and a page."""
    from eigenformer.experiments.search import search
    from eigenformer.experiments.search_tables import search_table
    from eigenformer.files import write_atomic
    from eigenformer.pages.page import save_page
    from eigenformer.pages.search import search_page
    from eigenformer.training.run_folder import CONFIG

    out = arguments.out or Path("runs") / f"search-{Path(arguments.dataset).name.split('.')[0]}"
    found = search(
        settings_of(arguments),
        arguments.trials,
        out,
        arguments.storage,
        workspace_of(arguments),
        pool_of(arguments, arguments.trials),
    )
    if not found.ranked:
        raise ConfigError(f"no trial was completed; the messages are in {out}")
    best, table = found.ranked[0], search_table(found)
    write_atomic(out / "table.md", table.encode())
    save_page(search_page(found), out / "search.html")
    shutil.copy(best.folder / CONFIG, out / CONFIG)
    print(
        f"\n{table}\nbest: trial {best.number}, val {found.metric} {best.value:.4f}, {best.folder}"
    )
    print(f"{out / 'search.html'}; train it again with  eigenformer train --config {out / CONFIG}")
