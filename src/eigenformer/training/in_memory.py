"""Training without a run folder."""

from __future__ import annotations

from torch import nn

from eigenformer.config import RunConfig
from eigenformer.data.batching import GraphDataset
from eigenformer.targets import Target
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.epoch_log import EpochLog
from eigenformer.training.module import TrainingModule
from eigenformer.training.trainer import make_trainer, quiet


def fit_in_memory(
    model: nn.Module, target: Target, config: RunConfig, train: GraphDataset, val: GraphDataset
) -> list[dict[str, float]]:
    """Trains a model, loads its best weights into it, and returns the metrics of every epoch."""
    size, steps = config.training.batch_size, config.training.epoch_steps
    module = GraphDataModule(train, val, None, size, config.seed, steps)
    task = TrainingModule(model, target, config.training, config.seed)
    recorder = EpochLog()
    with quiet():
        make_trainer(config, [recorder]).fit(task, datamodule=module)
    model.load_state_dict(recorder.best_state)
    return recorder.rows
