"""Training, evaluation and prediction, used by the command line and usable without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import lazy_names

if TYPE_CHECKING:
    from eigenformer.model_folder import ModelCard
    from eigenformer.targets import Target
    from eigenformer.training.data_module import GraphDataModule
    from eigenformer.training.loading import TrainingData, load_data
    from eigenformer.training.loop import resume_run, start_run
    from eigenformer.training.module import TrainingModule
    from eigenformer.training.planning import plan
    from eigenformer.training.predicting import evaluate, predict_batches
    from eigenformer.training.run_folder import RunFolder


__all__ = [
    "GraphDataModule",
    "ModelCard",
    "RunFolder",
    "Target",
    "TrainingData",
    "TrainingModule",
    "evaluate",
    "load_data",
    "plan",
    "predict_batches",
    "resume_run",
    "start_run",
]

# Names are resolved on first use, so that reading a run's summary does not load PyTorch.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "TrainingModule": "eigenformer.training.module",
        "GraphDataModule": "eigenformer.training.data_module",
        "ModelCard": "eigenformer.model_folder",
        "Target": "eigenformer.targets",
        "RunFolder": "eigenformer.training.run_folder",
        "TrainingData": "eigenformer.training.loading",
        "evaluate": "eigenformer.training.predicting",
        "load_data": "eigenformer.training.loading",
        "plan": "eigenformer.training.planning",
        "predict_batches": "eigenformer.training.predicting",
        "resume_run": "eigenformer.training.loop",
        "start_run": "eigenformer.training.loop",
    },
)
