"""Training, evaluation and prediction: what the command line calls, usable without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import lazy_names

if TYPE_CHECKING:
    from eigenformer.model_folder import ModelCard
    from eigenformer.outputs import Outputs
    from eigenformer.training.data_module import GraphDataModule
    from eigenformer.training.evaluation import evaluate
    from eigenformer.training.inputs import TrainingData, load_data
    from eigenformer.training.loop import resume_run, start_run
    from eigenformer.training.planning import plan
    from eigenformer.training.prediction import predict_graphs
    from eigenformer.training.run_folder import RunFolder
    from eigenformer.training.task import EigenformerTask


__all__ = [
    "EigenformerTask",
    "GraphDataModule",
    "ModelCard",
    "Outputs",
    "RunFolder",
    "TrainingData",
    "evaluate",
    "load_data",
    "plan",
    "predict_graphs",
    "resume_run",
    "start_run",
]

# Resolved when first used, so that reading a run's summary does not load PyTorch.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EigenformerTask": "eigenformer.training.task",
        "GraphDataModule": "eigenformer.training.data_module",
        "ModelCard": "eigenformer.model_folder",
        "Outputs": "eigenformer.outputs",
        "RunFolder": "eigenformer.training.run_folder",
        "TrainingData": "eigenformer.training.inputs",
        "evaluate": "eigenformer.training.evaluation",
        "load_data": "eigenformer.training.inputs",
        "plan": "eigenformer.training.planning",
        "predict_graphs": "eigenformer.training.prediction",
        "resume_run": "eigenformer.training.loop",
        "start_run": "eigenformer.training.loop",
    },
)
