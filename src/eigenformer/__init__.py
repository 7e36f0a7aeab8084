"""Graph transformers without positional encodings: attention from the Laplacian spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import lazy_names

if TYPE_CHECKING:
    from eigenformer.attention import SpectrumAwareAttention
    from eigenformer.config import EigenformerConfig, load_preset, presets
    from eigenformer.data.molecules import from_smiles
    from eigenformer.estimators import EigenformerClassifier, EigenformerRegressor
    from eigenformer.layer import EigenformerLayer
    from eigenformer.models.eigenformer import Eigenformer
    from eigenformer.scalar_mlp import ScalarMLP
    from eigenformer.spectrum import LaplacianSpectrum
    from eigenformer.trained_model import TrainedModel

__version__ = "0.1.0"

__all__ = [
    "Eigenformer",
    "EigenformerClassifier",
    "EigenformerConfig",
    "EigenformerLayer",
    "EigenformerRegressor",
    "LaplacianSpectrum",
    "ScalarMLP",
    "SpectrumAwareAttention",
    "TrainedModel",
    "from_smiles",
    "load_preset",
    "presets",
]

# Names are resolved on first use, so that importing the package does not load PyTorch.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Eigenformer": "eigenformer.models.eigenformer",
        "EigenformerClassifier": "eigenformer.estimators",
        "EigenformerConfig": "eigenformer.config",
        "EigenformerLayer": "eigenformer.layer",
        "EigenformerRegressor": "eigenformer.estimators",
        "LaplacianSpectrum": "eigenformer.spectrum",
        "ScalarMLP": "eigenformer.scalar_mlp",
        "SpectrumAwareAttention": "eigenformer.attention",
        "TrainedModel": "eigenformer.trained_model",
        "from_smiles": "eigenformer.data.molecules",
        "load_preset": "eigenformer.config",
        "presets": "eigenformer.config",
    },
)
