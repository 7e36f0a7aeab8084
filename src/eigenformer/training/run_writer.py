"""Writes the best model of a run with its card, and builds the run's summary."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from eigenformer.config import RunConfig
from eigenformer.data.preparation import differences
from eigenformer.model_folder import ModelCard, read_card, save_model, write_card
from eigenformer.models.base import Model
from eigenformer.targets import Target
from eigenformer.training.environment import git_revision, versions
from eigenformer.training.loading import TrainingData
from eigenformer.training.novelty import Reference
from eigenformer.training.predicting import calibrated
from eigenformer.training.run_folder import RunError, RunFolder
from eigenformer.training.trainer import processes


class RunWriter:
    """Writes the best weights of a run, and builds its summary.

    Args:
        config: The settings of the run.
        data: The training data.
        folder: The run folder.
        model: The model that is trained.
        target: What the model predicts.
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

    def save_best(self, model: nn.Module, epoch: int, validation: float) -> None:
        """Writes a model, with the epoch and its validation metric."""
        card = ModelCard(
            architecture=self.config.model,
            target=self.target,
            input_format=self.data.input_format,
            # Only the file's name, without its path: the run folder may be shared.
            data=replace(self.config.data, dataset=Path(self.config.data.dataset).name),
            training=self.config.training,
            preset=self.config.preset,
            seed=self.config.seed,
            epoch=epoch,
            validation=validation if math.isfinite(validation) else None,
            data_digest=self.data.digest,
        )
        save_model(self.folder.path, cast(Model, model), card)

    def calibrate(self, model: nn.Module) -> None:
        """Adds to the best model how wrong it is on the validation set, and what it has seen.

        Node targets are left out: the nodes of one graph are not independent of each other.
        """
        if self.target.of_nodes:
            return
        graphs = self.data.dataset("val")
        found = calibrated(model, graphs, self.target, self.config.training.batch_size)
        card = read_card(self.folder.path, self.data.limits)
        write_card(self.folder.path, replace(card, calibration=found))
        reference = Reference.of(model, self.data.dataset("train"), graphs)
        reference.save(self.folder.path, model)

    def summary(self, known: dict[str, Any]) -> dict[str, Any]:
        """Returns the summary: ``known``, and what else is needed to interpret the result."""
        config = self.config
        return {
            "dataset": config.data.dataset,
            "network": config.model.title,
            "preset": config.preset,
            "seed": config.seed,
            "metric": self.target.metric,
            "higher_is_better": self.target.higher_is_better,
            "parameters": self.model.num_parameters(),
            "epochs_planned": config.training.epochs,
            "graphs": {name: len(graphs) for name, graphs in self.data.splits.items()},
            "limit": config.data.limit,
            "size": getattr(config.data, "size", None),
            "differences": differences(config.data, self.data.archive),
            **known,
            "threads": torch.get_num_threads(),
            "processes": processes(config),
            "started": self.started,
            "versions": versions(),
            "git_revision": self.revision,
            "earlier": self.earlier,
        }


def _earlier(folder: RunFolder) -> list[dict[str, Any]]:
    """Returns the earlier parts of a resumed run: start time, Git revision and epochs of each."""
    try:
        summary = folder.read_summary()
    except RunError:
        return []
    if "started" not in summary:
        return []
    part = {name: summary.get(name) for name in ("started", "git_revision", "epochs")}
    return [*summary.get("earlier", []), part]
