"""``eigenformer presets``: lists the paper's models, their variants and other networks."""

from __future__ import annotations

import argparse

from eigenformer.reporting import print_columns

_COLUMNS = (
    *("preset", "network", "layers", "heads", "d", "p"),
    *("parameters", "published", "result", "remark"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: the command has no arguments."""


def run(arguments: argparse.Namespace) -> None:
    """Prints the table, network by network."""
    from eigenformer.config import load_preset, networks, presets

    order = networks()
    names = sorted(presets(), key=lambda name: (order.index(load_preset(name).model.kind), name))
    rows = [_COLUMNS, *map(preset_row, names)]
    print_columns(rows, right=range(2, len(_COLUMNS) - 1))


def preset_row(name: str) -> tuple[str, ...]:
    """Returns the row of one preset. The parameters are counted, not quoted."""
    from eigenformer.config import load_preset
    from eigenformer.models.sizes import count_parameters

    preset = load_preset(name)
    model = preset.model.to_dict()
    heads = preset.model.attention_heads or "-"
    sizes = (model["layers"], heads, model["hidden_dim"], model.get("phi_width", "-"))
    paper, remark = preset.paper, "" if preset.paper is None else preset.paper.remark
    if preset.variant_of:
        remark = f"not the paper's: {preset.variant_of} with {preset.described_changes()}"
    if not preset.dataset:
        remark = "not the paper's: the default for your own data"
    published = ("-", "-") if paper is None else (paper.parameters or "-", paper.result)
    figures = (preset.model.kind, *sizes, count_parameters(preset.model), *published)
    return (name, *map(str, figures), remark)
