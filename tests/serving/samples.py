"""A small model that predicts a number for molecules, with intervals."""

from __future__ import annotations

import torch

from eigenformer.config import BenchmarkData, InputFormat
from eigenformer.model_folder import ModelCard
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import Calibration, NumberTarget
from eigenformer.trained_model import TrainedModel

EVIL = '<img src="x" onerror="document.title=1"></script><script>document.title=2</script>'
"""A text that would change the title of a page that takes it for HTML."""


def tiny_model() -> TrainedModel:
    """As if it had been trained: predictions in units, and scores of a validation set."""
    torch.manual_seed(0)
    model = Eigenformer.from_preset("zinc", layers=1, hidden_dim=16, phi_width=4).eval()
    return TrainedModel(
        "tiny",
        model,
        NumberTarget(names=("logp",)),
        InputFormat(featurizer="zinc", unknown_type=21),
        BenchmarkData("zinc"),
        calibration=Calibration((tuple(0.01 * i for i in range(1, 21)),)),
    )


def card(trained: TrainedModel) -> ModelCard:
    """What is saved beside the weights."""
    return ModelCard(
        trained.model.config,
        trained.target,
        trained.input_format,
        trained.data,
        calibration=trained.calibration,
    )
