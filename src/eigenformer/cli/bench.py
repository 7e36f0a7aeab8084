"""``eigenformer bench``: measures processor time and memory, compared with other networks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenformer.cli.settings import add_device, add_folders, workspace_of

if TYPE_CHECKING:
    from eigenformer.speed import Measurement, Setup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: what to measure, and where to write the results."""
    parser.add_argument(
        "--workloads", nargs="+", help="any of zinc, superpixels, sbm, peptides (default: all)"
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument(
        "--rounds", type=int, default=1, help="measurements per model; the best is kept"
    )
    parser.add_argument("--no-growth", action="store_true", help="skip the growth curves")
    parser.add_argument(
        "--memory-limit",
        type=float,
        default=14,
        help="skip literal attention if a step needs more than this many gigabytes (default: 14)",
    )
    parser.add_argument("--output", type=Path, help="folder for the results as JSON and a plot")
    add_device(parser, default="cpu")
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Measures, and prints each result as soon as it is known."""
    from eigenformer.devices import resolve_device
    from eigenformer.nearest import unknown
    from eigenformer.speed import WORKLOADS, growth, steps
    from eigenformer.speed.batches import find_archive

    device = str(resolve_device(arguments.device))
    cache_dir = workspace_of(arguments).cache_dir
    archives: dict[str, str | None] = {}
    for name in arguments.workloads or WORKLOADS:
        if name not in WORKLOADS:
            raise ValueError(unknown(f"--workloads: '{name}'", name, WORKLOADS))
        found = find_archive(name, cache_dir)
        archives[name] = None if found is None else str(found)
        graphs = "random graphs" if found is None else found.name
        print(f"{name}: {WORKLOADS[name].graphs} graphs of {graphs}")
        if device != "cpu":
            print(f"  {_reported(WORKLOADS[name].preset)}")
    results: dict[str, list[dict[str, Any]]] = {"steps": [], "growth": []}
    print("\nForward, backward and optimiser: processor seconds, wall-clock seconds, megabytes.")
    if device != "cpu":
        print(
            f"On {_gpu_name(device)}: seconds between its events; megabytes of PyTorch's allocator."
        )
    names = ["batch", "threads", "model", "parameters", "processor s", "wall s", "memory MB"]
    names += ["literal /"] if device == "cpu" else ["literal /", "GPU s"]
    print("\n| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    for name, archive in archives.items():
        for threads in arguments.threads:
            results["steps"] += _table(list(steps({name: archive}, [threads], device)), arguments)
    if not arguments.no_growth and device == "cpu":
        print("\n| grows with | | model | processor s | memory MB |")
        print("| --- | --- | --- | --- | --- |")
        for name, value, setup in growth(device):
            best = _best([setup], arguments)[0]
            cells = f"{best.cpu:.4f} | {best.memory:.0f}" if best else "failed | "
            print(f"| {name} | {value} | {setup.model} | {cells} |", flush=True)
            results["growth"].append(_record(name, value, setup.model, best))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
        if results["growth"]:
            _plot(results["growth"], arguments.output / "growth.svg")


def _table(setups: list[Setup], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures all models on one batch with one number of threads, and prints the rows."""
    from eigenformer.speed import literal_gigabytes

    records = []
    literal: Measurement | None = None
    for setup, found in zip(setups, _best(setups, arguments), strict=True):
        if setup.model == "literal":
            literal = found
        needed = literal_gigabytes(setup)
        too_large = setup.model == "literal" and needed > arguments.memory_limit
        missing = f"about {needed:.0f} GB | | | |" if too_large else "failed | | | |"
        cells = _cells(found, literal) if found else missing
        print(f"| {setup.workload} | {setup.threads} | {setup.model} | {cells} |", flush=True)
        records.append(_record(setup.workload, setup.threads, setup.model, found))
    return records


def _best(setups: list[Setup], arguments: argparse.Namespace) -> list[Measurement | None]:
    """Returns the best of all rounds. A round measures the setups one after the other."""
    from eigenformer.speed import literal_gigabytes, measure

    best: list[Measurement | None] = [None] * len(setups)
    for _ in range(arguments.rounds):
        for number, setup in enumerate(setups):
            if setup.model == "literal" and literal_gigabytes(setup) > arguments.memory_limit:
                continue
            found, before = measure(setup), best[number]
            best[number] = found.best(before) if found and before else found or before
    return best


def _cells(found: Measurement, literal: Measurement | None) -> str:
    whole = (lambda x: x.cpu) if found.gpu is None else (lambda x: x.gpu)
    ratio = f"{whole(literal) / whole(found):.1f}" if literal else ""
    gpu = "" if found.gpu is None else f" | {found.gpu:.4f}"
    times = f"{found.cpu:.3f} | {found.wall:.3f}"
    return f"{found.parameters} | {times} | {found.memory:.0f} | {ratio}{gpu}"


def _gpu_name(device: str) -> str:
    import torch

    return "Apple's GPU" if device == "mps" else torch.cuda.get_device_name(device)


def _reported(preset: str) -> str:
    """Returns what the paper reports for a preset, in words."""
    from eigenformer.config import load_preset

    paper = load_preset(preset).paper
    if paper is None:
        return f"the paper reports nothing for {preset}"
    return (
        f"the paper: {paper.epoch_seconds:g} s an epoch, {paper.memory_gb:g} GB at most, on an "
        f"{paper.accelerator} ({preset})"
    )


def _record(name: str, value: int, model: str, found: Measurement | None) -> dict[str, Any]:
    import dataclasses

    figures = dataclasses.asdict(found) if found else {}
    return {"name": name, "value": value, "model": model, **figures}


def _plot(records: list[dict[str, Any]], path: Path) -> None:
    try:
        from eigenformer.plots.growth import draw_growth
        from eigenformer.plots.picture import save_picture
    except ImportError as error:
        print(f"\nNo plot: {error}")
        return
    save_picture(draw_growth(records), path)
    print(f"\n{path}")
