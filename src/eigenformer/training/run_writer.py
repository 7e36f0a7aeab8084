"""A run's own account of itself: the card of its model, and its summary."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eigenformer.config import RunConfig
from eigenformer.model_folder import ModelCard, save_model
from eigenformer.models.base import Model
from eigenformer.targets import Target
from eigenformer.training.environment import git_revision, versions
from eigenformer.training.loading import TrainingData
from eigenformer.training.run_folder import RunError, RunFolder
from eigenformer.training.trainer import processes


class RunWriter:
    """What a run writes besides its checkpoint: its best weights, and a summary.

    Args:
        config: The settings of the run.
        data: What it is trained on.
        folder: Where to write.
        model: What is trained.
        target: What it predicts.
    """

    def __init__(
        self,
        config: RunConfig,
        data: TrainingData,
        folder: RunFolder,
        model: Model,
        target: Target,
    ) -> None:
        self.config, self.data, self.folder = config, data, folder
        self.model, self.target = model, target
        self.started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.revision = git_revision()
        self.earlier = _earlier(folder)

    def save_best(self, epoch: int, validation: float) -> None:
        """Writes the model as it is now, with the epoch and its validation metric."""
        card = ModelCard(
            architecture=self.config.model,
            target=self.target,
            input_format=self.data.input_format,
            # Only the file's name: the folder may be given away.
            data=replace(self.config.data, dataset=Path(self.config.data.dataset).name),
            training=self.config.training,
            preset=self.config.preset,
            seed=self.config.seed,
            epoch=epoch,
            validation=None if validation != validation else validation,
        )
        save_model(self.folder.path, self.model, card)

    def summary(self, known: dict[str, Any]) -> dict[str, Any]:
        """What is known of the run, with all that a reader of its result needs."""
        config = self.config
        return {
            "dataset": config.data.dataset,
            "preset": config.preset,
            "seed": config.seed,
            "metric": self.target.metric,
            "higher_is_better": self.target.higher_is_better,
            "parameters": self.model.num_parameters(),
            "epochs_planned": config.training.epochs,
            "graphs": {name: len(graphs) for name, graphs in self.data.splits.items()},
            "limit": config.data.limit,
            "size": getattr(config.data, "size", None),
            **known,
            "threads": torch.get_num_threads(),
            "processes": processes(config),
            "started": self.started,
            "versions": versions(),
            "git_revision": self.revision,
            "earlier": self.earlier,
        }


def _earlier(folder: RunFolder) -> list[dict[str, Any]]:
    """Of a run that is resumed: when and with which code it was started before, and stopped."""
    try:
        summary = folder.read_summary()
    except RunError:
        return []
    if "started" not in summary:
        return []
    part = {name: summary.get(name) for name in ("started", "git_revision", "epochs")}
    return [*summary.get("earlier", []), part]
