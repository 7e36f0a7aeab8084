"""``eigenformer report``: writes a page about one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from eigenformer.cli.settings import add_device, add_folders, workspace_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the run, and where to write."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        help="HTML file to write (default: report.html)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=8,
        help="test graphs to draw, largest errors first (default: 8)",
    )
    add_device(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Writes the page, and reports which parts are missing."""
    from eigenformer.analysis.run_report import report_run
    from eigenformer.pages import report_page, save_page

    workspace = workspace_of(arguments)
    report = report_run(arguments.run_folder, arguments.examples, workspace, arguments.device)
    for part, reason in report.missing.items():
        workspace.reporter.notice(f"without {part}: {reason}")
    save_page(report_page(report), arguments.out)
    print(f"{report.name}: {arguments.out}")
