"""``eigenformer demo``: training, comparison and report on graphs generated on the spot."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_folders, add_training, settings_of, workspace_of
from eigenformer.config import merge

_SETTINGS = {
    "preset": "pattern",
    "data": {"dataset": "pattern", "size": 700},
    "model": {"layers": 4, "attention_dropout": 0.1},
    "training": {"epochs": 10, "batch_size": 16, "learning_rate": 0.001},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: where to write, and which settings to change."""
    parser.add_argument(
        "--out", type=Path, default=Path("runs/demo"), help="output folder (default: runs/demo)"
    )
    parser.add_argument("--seed", type=int, help="random seed (default: 0)")
    add_training(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Trains an Eigenformer and the networks it is compared with, and writes the report."""
    from eigenformer.analysis.run_report import report_run
    from eigenformer.experiments.demo import (
        NETWORKS,
        check_comparable,
        majority,
        train_comparable,
    )
    from eigenformer.pages import report_page, save_page
    from eigenformer.training.loop import start_run
    from eigenformer.training.planning import plan
    from eigenformer.training.run_folder import RunFolder

    RunFolder.check_new(arguments.out)
    wanted = merge(_SETTINGS, settings_of(arguments))
    size = wanted["data"]["size"]
    print(f"demo: find the pattern hidden in random graphs (PATTERN, {size} graphs generated here)")
    workspace = workspace_of(arguments)
    config, data = plan(wanted, workspace)
    check_comparable(config)  # before any long work
    summary = start_run(config, data, arguments.out, workspace.reporter)
    results = [("Eigenformer", summary["parameters"], summary["test"])]
    for network in NETWORKS:
        print(f"the same training for {network.upper()}, of the same size ...", flush=True)
        compared = train_comparable(network, config, data)
        results.append((compared.name, compared.parameters, compared.test))
    results.append(("majority class", 0, majority(data).test))
    print(f"\n{'test set':<16}{'parameters':>10}{'weighted accuracy':>20}")
    for name, parameters, test in results:
        print(f"{name:<16}{parameters:>10}{100 * test:>18.1f} %")
    page = arguments.out / "report.html"
    save_page(report_page(report_run(arguments.out, workspace=workspace)), page)
    print(f"\nthe run is in {arguments.out}, its report in {page}")
    print(f"next: eigenformer explain {arguments.out} test --out explain.html")
