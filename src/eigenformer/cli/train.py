"""``eigenformer train``: trains on a benchmark or on your own data and writes a run folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import (
    add_folders,
    add_own_data,
    add_training,
    settings_of,
    workspace_of,
)
from eigenformer.config import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the dataset, and every setting that may differ from the preset."""
    parser.add_argument("dataset", nargs="?", help="a benchmark, or a path to your own data")
    parser.add_argument(
        "--preset", help="a preset (default: the benchmark's; for your own data: zinc)"
    )
    parser.add_argument(
        "--config", type=Path, help="settings file, for example a run's config.yaml"
    )
    parser.add_argument(
        "--out", type=Path, help="output folder (default: runs/DATASET-PRESET-seedSEED)"
    )
    parser.add_argument("--seed", type=int, help="random seed (default: 0)")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue this run")
    parser.add_argument("--from", dest="start", metavar="RUN", help="start from a trained model")
    add_training(parser)
    add_own_data(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Starts a run, or resumes one."""
    from eigenformer.reporting import SilentReporter
    from eigenformer.training.loading import load_data
    from eigenformer.training.loop import resume_run, start_run
    from eigenformer.training.planning import plan, run_name
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
    out = arguments.out or Path("runs") / run_name(wanted)
    if is_first_process():
        RunFolder.check_new(out)  # before any long work
    config, data = plan(wanted, workspace)
    start_run(config, data, out, workspace.reporter)
