"""A model as what it consists of, with its parameters counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from eigenformer.config import EigenformerConfig, load_preset
from eigenformer.model_folder import CARD, read_card

if TYPE_CHECKING:
    from eigenformer.models import Eigenformer

Lines = tuple[str, ...]


@dataclass(frozen=True)
class Architecture:
    """A model in words.

    Args:
        name: Of the preset or the run.
        config: The settings.
        parameters: Of the whole model.
        layer_parameters: Of one layer, without what all layers share.
        norm: The layers' norm, line by line.
        feed_forward: Their feed-forward network, likewise.
        local_branch: Their local branch; empty where there is none.
        head: The head.
    """

    name: str
    config: EigenformerConfig
    parameters: int
    layer_parameters: int
    norm: Lines
    feed_forward: Lines
    local_branch: Lines
    head: Lines


def architecture(preset_or_folder: str) -> Architecture:
    """The architecture of a preset, or of the model in a folder."""
    from eigenformer.models import Eigenformer, build_model

    path = Path(preset_or_folder)
    if (path / CARD).is_file() or "/" in preset_or_folder:
        name, config = path.resolve().name, read_card(path).architecture
    else:
        name, config = preset_or_folder, load_preset(preset_or_folder).model
    model = build_model(config)
    if not isinstance(model, Eigenformer):
        raise ValueError(f"{name}: the figure is that of an Eigenformer, not of a {config.kind}")
    return architecture_of(name, model)


def architecture_of(name: str, model: Eigenformer) -> Architecture:
    """The architecture of a model, called so."""
    from eigenformer.layer import EigenformerLayer
    from eigenformer.parts import describe

    layer = cast(EigenformerLayer, model.layers[0])
    return Architecture(
        name,
        model.config,
        model.num_parameters(),
        sum(p.numel() for p in layer.parameters()),
        describe(layer.norms[0]),
        describe(layer.ffn),
        () if layer.local is None else describe(layer.local),
        describe(model.head),
    )
