"""``eigenformer presets``: the paper's models in one table."""

from __future__ import annotations

import argparse

_COLUMNS = ("preset", "layers", "heads", "d", "p", "parameters", "paper", "remark")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(arguments: argparse.Namespace) -> None:
    """Prints the table."""
    from eigenformer.config import presets

    rows = [_COLUMNS, *(preset_row(name) for name in presets())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, len(row) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def preset_row(name: str) -> tuple[str, ...]:
    """One preset's row. The parameters are counted, not quoted."""
    import torch

    from eigenformer.config import load_preset
    from eigenformer.model import Eigenformer

    preset = load_preset(name)
    with torch.device("meta"):  # shapes only: nothing is allocated or drawn
        parameters = Eigenformer(preset.model).num_parameters()
    model = preset.model
    sizes = (model.layers, model.heads, model.hidden_dim, model.phi_width, parameters)
    return (name, *map(str, sizes), str(preset.paper.parameters), preset.paper.remark)
