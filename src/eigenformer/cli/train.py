"""``eigenformer train``: trains on a benchmark or on your own data and writes a run folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from eigenformer.data.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the dataset, and every setting that may differ from the preset."""
    parser.add_argument("dataset", nargs="?", help="a benchmark, or a path to your own data")
    parser.add_argument(
        "--preset", help="a preset (default: the benchmark's; for your own data: molecules)"
    )
    parser.add_argument(
        "--config", type=Path, help="settings file, for example a run's config.yaml"
    )
    parser.add_argument(
        "--out", type=Path, help="output folder (default: runs/DATASET-PRESET-seedSEED)"
    )
    parser.add_argument("--seed", type=int, help="random seed (default: 0)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue this run")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="RUN",
        help="start from a trained model; 'none': from new weights, not the preset's",
    )
    several = parser.add_argument_group("several models")
    several.add_argument(
        "--ensemble", type=positive, metavar="N", help="train N models that predict together"
    )
    several.add_argument(
        "--folds",
        dest="num_folds",  # data.folds is the setting of each of the runs
        type=positive,
        metavar="K",
        help="cross-validate: train K models, and predict each row by one not trained on it",
    )
    several.add_argument(
        "--repeats",
        type=positive,
        default=1,
        help="cross-validations with other folds (default: 1)",
    )
    several.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put ' before cells of out_of_fold.csv that a spreadsheet would read as formulas",
    )
    add_side_by_side(several)
    add_training(parser)
    add_own_data(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Starts a run, or resumes one."""
    from eigenformer.reporting import SilentReporter
    from eigenformer.training.loading import load_data
    from eigenformer.training.loop import resume_run, start_run
    from eigenformer.training.planning import check_settings, plan, run_name
    from eigenformer.training.run_folder import RunFolder
    from eigenformer.training.trainer import is_first_process

    workspace = workspace_of(arguments, None if is_first_process() else SilentReporter())
    wanted = settings_of(arguments, workspace.reporter)
    if arguments.resume is not None:
        if wanted or arguments.out is not None:
            raise ConfigError("--resume uses the run's own settings and takes no others")
        folder = RunFolder.open(arguments.resume)
        folder.check_resumable()  # before any long work
        config = folder.read_config()
        workspace.limits.check_settings(config)
        data = load_data(config.data, workspace, *config.model.needs)
        resume_run(arguments.resume, config, data, workspace.reporter)
        return
    if "dataset" not in wanted.get("data", {}):
        raise ConfigError("no dataset given; name a benchmark or a path, before any --target")
    check_settings(wanted, workspace)
    if arguments.escape_formulas and arguments.num_folds is None:
        raise ConfigError("--escape-formulas: only with --folds, which write a table")
    if arguments.ensemble is not None or arguments.num_folds is not None:
        _train_several(arguments, wanted, workspace)
        return
    for name in ("side_by_side", "ray"):
        if getattr(arguments, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option}: only with --ensemble or --folds")
    out = arguments.out or Path("runs") / run_name(wanted)
    if is_first_process():
        RunFolder.check_new(out)  # before any long work
    config, data = plan(wanted, workspace)
    start_run(config, data, out, workspace.reporter)


def _train_several(
    arguments: argparse.Namespace, wanted: dict[str, Any], workspace: Workspace
) -> None:
    """Trains an ensemble or the folds of a cross-validation, and writes their tables."""
    from eigenformer.experiments.together import cross_validate, train_ensemble
    from eigenformer.experiments.together_tables import (
        ensemble_table,
        folds_table,
        out_of_fold_rows,
    )
    from eigenformer.files import write_atomic
    from eigenformer.training.planning import run_name
    from eigenformer.training.prediction import without_formula

    if arguments.ensemble is not None and arguments.num_folds is not None:
        raise ConfigError("give --ensemble or --folds, not both: folds are an ensemble, too")
    kind = "folds" if arguments.num_folds is not None else "ensemble"
    count = arguments.num_folds * arguments.repeats if kind == "folds" else arguments.ensemble
    out = arguments.out or Path("runs") / f"{run_name(wanted)}-{kind}{count}"
    pool = pool_of(arguments, count)
    wanted.setdefault("threads", 1)
    if kind == "folds":
        found = cross_validate(wanted, arguments.num_folds, arguments.repeats, out, workspace, pool)
        table = folds_table(found)
        rows = out_of_fold_rows(found, without_formula if arguments.escape_formulas else str)
        write_atomic(out / "out_of_fold.csv", rows.encode())
    else:
        table = ensemble_table(train_ensemble(wanted, arguments.ensemble, out, workspace, pool))
    write_atomic(out / "table.md", table.encode())
    print(f"\n{table}\neverything is in {out}, which evaluate, predict and explain take like a run")
