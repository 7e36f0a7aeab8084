"""A configuration as what it consists of, with its parameters counted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eigenformer.config import (
    CategoricalSpec,
    EigenformerConfig,
    EmbeddingSpec,
    EncoderSpec,
    LinearSpec,
    load_preset,
)
from eigenformer.model_folder import CARD, read_card


@dataclass(frozen=True)
class Architecture:
    """A configuration and its size.

    Args:
        name: Of the preset or the run.
        config: The settings.
        parameters: Of the whole model.
        layer_parameters: Of one layer, without what all layers share.
    """

    name: str
    config: EigenformerConfig
    parameters: int
    layer_parameters: int


def architecture(preset_or_folder: str) -> Architecture:
    """The architecture of a preset, or of the model in a folder."""
    from eigenformer.models.eigenformer import Eigenformer

    path = Path(preset_or_folder)
    if (path / CARD).is_file() or "/" in preset_or_folder:
        name, config = path.resolve().name, read_card(path).architecture
    else:
        name, config = preset_or_folder, load_preset(preset_or_folder).model
    model = Eigenformer(config)
    layer = sum(p.numel() for p in model.layers[0].parameters())
    return Architecture(name, config, model.num_parameters(), layer)


def describe_encoder(spec: EncoderSpec, width: int) -> tuple[str, ...]:
    """What an encoder does, step by step, each in a few words.

    Args:
        spec: Its settings.
        width: d, what it encodes to.
    """
    if isinstance(spec, EmbeddingSpec):
        return f"embedding {spec.num_types} × {spec.width}", f"linear {spec.width} → {width}"
    if isinstance(spec, CategoricalSpec):
        return f"{len(spec.sizes)} embeddings", f"summed, width {width}"
    if isinstance(spec, LinearSpec):
        return (f"linear {spec.in_channels} → {width}",)
    return (f"{width} ones",)
