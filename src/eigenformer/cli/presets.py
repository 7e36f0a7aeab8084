"""``eigenformer presets``: lists the paper's models and their variants in one table."""

from __future__ import annotations

import argparse

from eigenformer.reporting import print_columns

_COLUMNS = ("preset", "layers", "heads", "d", "p", "parameters", "paper", "remark")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command has no arguments."""


def run(arguments: argparse.Namespace) -> None:
    """Prints the table."""
    from eigenformer.config import presets

    rows = [_COLUMNS, *(preset_row(name) for name in presets())]
    print_columns(rows, right=range(1, len(_COLUMNS) - 1))


def preset_row(name: str) -> tuple[str, ...]:
    """Returns the row of one preset. The parameters are counted, not quoted."""
    import torch

    from eigenformer.config import load_preset
    from eigenformer.models import build_model

    preset = load_preset(name)
    with torch.device("meta"):  # shapes only: nothing is allocated or initialised
        parameters = build_model(preset.model).num_parameters()
    model = preset.model.to_dict()
    sizes = (model.get(size, "-") for size in ("layers", "heads", "hidden_dim", "phi_width"))
    paper, remark = preset.paper, "" if preset.paper is None else preset.paper.remark
    if preset.variant_of:
        remark = f"not the paper's: {preset.variant_of} with {preset.described_changes()}"
    figures = (*sizes, parameters, "-" if paper is None else paper.parameters)
    return (name, *map(str, figures), remark)
