"""``eigenformer diagnose``: where attention looks, which norms drift, which weights learn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.cli.settings import (
    add_device,
    add_folders,
    limits_of,
    positive,
    set_threads,
    workspace_of,
)

if TYPE_CHECKING:
    from eigenformer.analysis.diagnosis import Diagnosis
    from eigenformer.config import EigenformerConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the model and the graphs."""
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder with a model")
    parser.add_argument("--split", default="train", help="train (default), val, test or all")
    parser.add_argument("--data", help="other data, or a new path to the same data")
    parser.add_argument(
        "--limit", type=int, default=64, help="number of graphs, evenly spread (default: 64)"
    )
    parser.add_argument(
        "--steps", type=positive, default=8, help="training steps for the gradients (default: 8)"
    )
    parser.add_argument("--threads", type=positive, help="PyTorch threads")
    add_device(parser)
    add_folders(parser)


def run(arguments: argparse.Namespace) -> None:
    """Prints both tables and points out what is striking."""
    from eigenformer.analysis.diagnosis import diagnose, diagnosis_table
    from eigenformer.analysis.matches import untrained
    from eigenformer.trained_model import TrainedModel

    if arguments.limit < 2:
        raise ValueError(f"--limit: must be at least 2, got {arguments.limit}")
    set_threads(arguments)
    found = TrainedModel.open(arguments.run_folder, arguments.device, limits=limits_of(arguments))
    found = found.alone()
    graphs = found.graphs(workspace_of(arguments), arguments.split, arguments.data)
    target, size = found.target, found.batch_size
    learned, new = (
        diagnose(model, graphs, target, arguments.limit, size, frozen, arguments.steps)
        for model, frozen in (
            (found.model, found.frozen_norms),
            (untrained(found.model), False),
        )
    )
    print(diagnosis_table(learned, new), end="\n\n")
    print(
        f"{'layers' if learned.layers else 'batch norms'}: {min(arguments.limit, len(graphs))} "
        f"graphs of {arguments.split}; gradients: {learned.steps} training steps of up to {size} "
        f"graphs, loss {learned.loss:.4f}, untrained {new.loss:.4f}"
    )
    if learned.layers:
        _print_heads(learned, new, found.eigenformer.config)
    else:
        print(f"{found.model.config.title}: no spectrum-aware attention, so none is shown")
    if learned.bias_steps:
        print(
            f"{learned.bias_steps} of {learned.steps} steps change only the head's bias: all "
            f"errors of a batch have the same sign, and batch norm makes the mean prediction equal "
            f"to the bias; larger batches, --training.freeze_norms_after or "
            f"--model.last_norm false avoid this"
        )


def _print_heads(learned: Diagnosis, new: Diagnosis, config: EigenformerConfig) -> None:
    """Prints how many heads have nearly uniform attention, and what helps against it."""
    from eigenformer.analysis.diagnosis import EVEN

    heads = config.layers * config.heads
    print(
        f"heads with nearly uniform attention (entropy above {EVEN}): {learned.even_heads} of "
        f"{heads}, untrained {new.even_heads}"
    )
    if learned.even_heads > heads / 2 and new.even_heads > heads / 2:
        print(
            f"most heads still have the nearly uniform attention they started with; a "
            f"--model.phi_gain above {config.phi_gain:g} makes them start less uniform"
        )
