"""``eigenformer bench``: processor time and memory, side by side with other graph networks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eigenformer.benchmark import Measurement


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and where to put it."""
    parser.add_argument(
        "--workloads", nargs="+", help="zinc, superpixels, sbm, peptides (default: all)"
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--no-growth", action="store_true", help="leave out the growth curves")
    parser.add_argument("--memory-limit", type=float, default=14, help="gigabytes a step may take")
    parser.add_argument("--output", type=Path, help="folder for the figures as JSON and a plot")


def run(arguments: argparse.Namespace) -> None:
    """Measures and prints as it goes."""
    from eigenformer.benchmark import WORKLOADS, growth, literal_gigabytes, measure, steps

    workloads = arguments.workloads or list(WORKLOADS)
    for name in workloads:
        if name not in WORKLOADS:
            raise ValueError(f"--workloads: '{name}' is not one of {', '.join(WORKLOADS)}")
    report: dict[str, list[dict[str, object]]] = {"steps": [], "growth": []}
    print("Forward, backward and optimiser: processor seconds, wall-clock seconds, megabytes.\n")
    print("| batch | threads | model | parameters | processor s | wall s | memory MB | literal / |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    literal: Measurement | None = None
    for setup in steps(workloads, arguments.threads):
        too_large = literal_gigabytes(setup) > arguments.memory_limit
        skipped = setup.model == "literal" and too_large
        found = None if skipped else measure(setup)
        if setup.model == "literal":
            literal = found
        note = f"about {literal_gigabytes(setup):.0f} GB" if skipped else "failed"
        print(
            f"| {setup.workload} | {setup.threads} | {setup.model} | "
            + (_cells(found, literal) if found else f"{note} | | | |")
            + " |",
            flush=True,
        )
        report["steps"].append(_record(setup.workload, setup.threads, setup.model, found))
    if not arguments.no_growth:
        print("\n| grows with | | model | processor s | memory MB |")
        print("| --- | --- | --- | --- | --- |")
        for name, value, setup in growth():
            found = measure(setup)
            cells = f"{found.cpu:.4f} | {found.memory:.0f}" if found else "failed | "
            print(f"| {name} | {value} | {setup.model} | {cells} |", flush=True)
            report["growth"].append(_record(name, value, setup.model, found))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
        if not arguments.no_growth:
            _plot(report["growth"], arguments.output / "growth.png")


def _cells(found: Measurement, literal: Measurement | None) -> str:
    ratio = f"{literal.cpu / found.cpu:.1f}" if literal else ""
    return f"{found.parameters} | {found.cpu:.3f} | {found.wall:.3f} | {found.memory:.0f} | {ratio}"


def _record(name: str, value: int, model: str, found: Measurement | None) -> dict[str, object]:
    import dataclasses

    figures = dataclasses.asdict(found) if found else {}
    return {"name": name, "value": value, "model": model, **figures}


def _plot(records: list[dict[str, object]], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("\nNo plot: matplotlib is not installed (pip install 'eigenformer[plots]').")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = {"nodes": "nodes of a graph", "phi_width": "width of φ", "heads": "heads"}
    figure, axes = pyplot.subplots(2, 3, figsize=(10, 6), sharex="col")
    for column, (name, label) in enumerate(names.items()):
        for row, (key, unit) in enumerate((("cpu", "processor s"), ("memory", "memory MB"))):
            ax = axes[row][column]
            for model in dict.fromkeys(r["model"] for r in records):
                points = [
                    (r["value"], r[key])
                    for r in records
                    if r["name"] == name and r["model"] == model and key in r
                ]
                if points:
                    ax.plot(*zip(*points, strict=True), marker=".", label=model)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_ylabel(unit)
            ax.set_xlabel(label if row else "")
            ax.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"\n{path}")
