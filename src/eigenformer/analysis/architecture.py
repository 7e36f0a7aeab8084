"""The components of a model, with its number of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.config import EigenformerConfig, load_preset
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.model_folder import CARD, read_card

if TYPE_CHECKING:
    from eigenformer.models import Eigenformer

Lines = tuple[str, ...]


@dataclass(frozen=True)
class Architecture:
    """Describes a model in words.

    Args:
        name: The name of the preset or the run.
        config: The settings.
        parameters: The number of parameters of the whole model.
        layer_parameters: The number of parameters of one layer, without those that all layers
            share.
        norm: The norm of the layers, line by line.
        feed_forward: The feed-forward network of the layers, line by line.
        local_branch: The local branch of the layers, line by line; empty if there is none.
        filters: The spectral filters of the layers, likewise.
        head: The head, line by line.
    """

    name: str
    config: EigenformerConfig
    parameters: int
    layer_parameters: int
    norm: Lines
    feed_forward: Lines
    local_branch: Lines
    filters: Lines
    head: Lines


def architecture(preset_or_folder: str, limits: Limits = DEFAULT_LIMITS) -> Architecture:
    """Returns the architecture of a preset, or of the model in a folder."""
    from eigenformer.models import Eigenformer, build_model

    path = Path(preset_or_folder)
    if (path / CARD).is_file() or "/" in preset_or_folder:
        name, config = path.resolve().name, read_card(path, limits).architecture
    else:
        name, config = preset_or_folder, load_preset(preset_or_folder).model
    model = build_model(config)
    if not isinstance(model, Eigenformer):
        raise ValueError(f"{name}: the figure needs an Eigenformer, got a {config.title}")
    return architecture_of(name, model)


def architecture_of(name: str, model: Eigenformer) -> Architecture:
    """Returns the architecture of a model under the given name."""
    layer = model.layers[0]
    return Architecture(
        name,
        model.config,
        model.num_parameters(),
        sum(p.numel() for p in layer.parameters()),
        **model.described(),
    )
