"""Training without a run folder."""

from __future__ import annotations

from lightning.pytorch.callbacks import Callback
from torch import nn

from eigenformer.config import RunConfig
from eigenformer.data.batching import GraphDataset
from eigenformer.targets import Target
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.epoch_log import EpochLog
from eigenformer.training.module import TrainingModule
from eigenformer.training.stops import StopEarly
from eigenformer.training.trainer import make_trainer, quiet


def fit_in_memory(
    model: nn.Module, target: Target, config: RunConfig, train: GraphDataset, val: GraphDataset
) -> list[dict[str, float]]:
    """Trains a model, loads its best weights into it, and returns the metrics of every epoch."""
    size, steps = config.training.batch_size, config.training.epoch_steps
    graphs = GraphDataModule(train, val, None, size, config.seed, steps)
    module = TrainingModule(model, target, config.training, config.seed)
    log = EpochLog()
    callbacks: list[Callback] = [log]
    if config.patience is not None:
        callbacks.append(StopEarly(module.monitor, config.patience, target.higher_is_better))
    with quiet():
        make_trainer(config, callbacks).fit(module, datamodule=graphs)
    model.load_state_dict(log.best_state)
    return log.rows
