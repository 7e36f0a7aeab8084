"""Graph transformers without positional encodings: attention from the Laplacian spectrum."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenformer.attention import SpectrumAwareAttention
    from eigenformer.config import EigenformerConfig, load_preset, presets
    from eigenformer.estimators import EigenformerClassifier, EigenformerRegressor
    from eigenformer.layer import EigenformerLayer
    from eigenformer.model import Eigenformer
    from eigenformer.scalar_mlp import ScalarMLP
    from eigenformer.spectrum import LaplacianSpectrum

__version__ = "0.1.0"

# Resolved when first used, so that importing the package does not load PyTorch.
_HOMES = {
    "Eigenformer": "eigenformer.model",
    "EigenformerClassifier": "eigenformer.estimators",
    "EigenformerConfig": "eigenformer.config",
    "EigenformerLayer": "eigenformer.layer",
    "EigenformerRegressor": "eigenformer.estimators",
    "LaplacianSpectrum": "eigenformer.spectrum",
    "ScalarMLP": "eigenformer.scalar_mlp",
    "SpectrumAwareAttention": "eigenformer.attention",
    "load_preset": "eigenformer.config",
    "presets": "eigenformer.config",
}

__all__ = [
    "Eigenformer",
    "EigenformerClassifier",
    "EigenformerConfig",
    "EigenformerLayer",
    "EigenformerRegressor",
    "LaplacianSpectrum",
    "ScalarMLP",
    "SpectrumAwareAttention",
    "load_preset",
    "presets",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigenformer' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
