"""``eigenformer bench``: measures processor time and memory, compared with other networks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenformer.cli.settings import add_device, add_folders, workspace_of

if TYPE_CHECKING:
    from eigenformer.speed import Measurement, Setup, Workload


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
            print(f"  {_epoch(WORKLOADS[name])}")
    steps_found: list[dict[str, Any]] = []
    growth_found: list[dict[str, Any]] = []
    print("\nForward, backward and optimiser: processor seconds, wall-clock seconds, megabytes.")
    if device != "cpu":
        print(
            f"On {_device_name(device)}: seconds of a step between its events; megabytes of "
            f"PyTorch's allocator in addition to those before the step; seconds of an epoch, which "
            f"are those of a step times the steps of an epoch; and the allocator's peak in GB."
        )
    names = ["batch", "threads", "model", "parameters", "processor s", "wall s", "memory MB"]
    names += ["literal /"] if device == "cpu" else ["literal /", "GPU s", "epoch s", "peak GB"]
    print("\n| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    for name, archive in archives.items():
        for threads in arguments.threads:
            setups = list(steps({name: archive}, [threads], device))
            steps_found += _table(setups, arguments)
        if device != "cpu":
            print(_reported(name))
    if not arguments.no_growth and device == "cpu":
        print("\n| grows with | | model | processor s | memory MB |")
        print("| --- | --- | --- | --- | --- |")
        for name, value, setup in growth(device):
            (best,) = _best([setup], arguments)
            if isinstance(best, str):
                cells = f"{best} | "
            else:
                cells = f"{best.cpu:.4f} | {_number(best.memory, '.0f')}"
            print(f"| {name} | {value} | {setup.model} | {cells} |", flush=True)
            growth_found.append(_record(name, value, setup.model, best))
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        results = {"machine": _machine(device), "steps": steps_found, "growth": growth_found}
        text = json.dumps(results, indent=1, allow_nan=False)
        (arguments.output / "bench.json").write_text(text + "\n")
        if growth_found:
            _plot(growth_found, arguments.output / "growth.svg")


def _table(setups: list[Setup], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures all models on one batch with one number of threads, and prints the rows."""
    records = []
    literal: Measurement | None = None
    for setup, found in zip(setups, _best(setups, arguments), strict=True):
        if setup.model == "literal" and not isinstance(found, str):
            literal = found
        empty = " |" * (4 if setup.device == "cpu" else 7)
        cells = f"{found}{empty}" if isinstance(found, str) else _cells(setup, found, literal)
        print(f"| {setup.workload} | {setup.threads} | {setup.model} | {cells} |", flush=True)
        records.append(_record(setup.workload, setup.threads, setup.model, found))
    return records


def _best(setups: list[Setup], arguments: argparse.Namespace) -> list[Measurement | str]:
    """Returns the best of all rounds, or why there is none.

    A round measures the setups one after the other.
    """
    from eigenformer.speed import MeasuringError, literal_gigabytes, measure

    best: list[Measurement | str] = [""] * len(setups)
    for _ in range(arguments.rounds):
        for number, setup in enumerate(setups):
            before, needed = best[number], literal_gigabytes(setup)
            if setup.model == "literal" and needed > arguments.memory_limit:
                best[number] = f"about {needed:.0f} GB"
                continue
            try:
                found = measure(setup)
                best[number] = found if isinstance(before, str) else found.best(before)
            except MeasuringError as error:
                best[number] = f"failed: {error}" if isinstance(before, str) else before
    return best


def _cells(setup: Setup, found: Measurement, literal: Measurement | None) -> str:
    from eigenformer.speed import WORKLOADS

    whole = (lambda x: x.cpu) if found.gpu is None else (lambda x: x.gpu)
    cells = [str(found.parameters), f"{found.cpu:.3f}", f"{found.wall:.3f}"]
    cells += [_number(found.memory, ".0f")]
    cells += [f"{whole(literal) / whole(found):.1f}" if literal else ""]
    if found.gpu is not None:
        load = WORKLOADS[setup.workload]
        peak = None if found.peak is None else found.peak / 1024
        epoch = found.gpu * load.epoch / load.graphs
        cells += [f"{found.gpu:.4f}", f"{epoch:.1f}", _number(peak, ".2f")]
    return " | ".join(cells)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _device_name(device: str) -> str:
    import platform

    import torch

    if device == "cpu":
        return platform.processor() or platform.machine()
    return "Apple's GPU" if device == "mps" else torch.cuda.get_device_name(device)


def _machine(device: str) -> dict[str, Any]:
    """Returns what the figures depend on besides the setups."""
    import platform

    from eigenformer.kernels import KERNELS
    from eigenformer.training.environment import versions

    details = {kernel.name: kernel.details() for kernel in KERNELS if not kernel.unavailable()}
    return {
        "device": device,
        "name": _device_name(device),
        "system": platform.platform(),
        "versions": versions(),
        "kernels": {name: text for name, text in details.items() if text},
    }


def _epoch(load: Workload) -> str:
    """Returns how the seconds of an epoch are found, and what the paper does otherwise."""
    from eigenformer.config import load_preset

    theirs = load_preset(load.preset).training.batch_size
    other = "" if theirs == load.graphs else f"; the paper's batches have {theirs}"
    return f"an epoch: {load.epoch} graphs in batches of {load.graphs}{other}"


def _reported(workload: str) -> str:
    """Returns the row of the paper: its model, and what it reports for it."""
    from eigenformer.config import load_preset
    from eigenformer.speed import WORKLOADS

    preset = WORKLOADS[workload].preset
    paper = load_preset(preset).paper
    if paper is None:
        return f"| {workload} | | the paper reports nothing for {preset} |" + " |" * 8
    cells = [workload, "", f"the paper, {paper.accelerator}", str(paper.parameters or "")]
    cells += [""] * 5 + [_number(paper.epoch_seconds, "g"), _number(paper.memory_gb, "g")]
    return f"| {' | '.join(cells)} |"


def _record(name: str, value: int, model: str, found: Measurement | str) -> dict[str, Any]:
    import dataclasses

    figures = {"missing": found} if isinstance(found, str) else dataclasses.asdict(found)
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
