"""Learning is real: small sets are learnt by heart."""

from __future__ import annotations

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from eigenformer import Eigenformer
from eigenformer.config import TrainingConfig
from eigenformer.data.archive import GraphArchive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.spectra import memory_spectra
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget
from eigenformer.training import GraphDataModule, TrainingModule, evaluate
from eigenformer.training.module import TrainingError
from eigenformer.training.trainer import quiet
from tests.graphs import random_graph, small_config


def _dataset(count: int, target) -> GraphDataset:
    graphs = []
    for index in range(count):
        graph = random_graph(6 + index % 5)
        for name in ("eigenvalues", "eigenvectors", "num_frequencies"):
            if name in graph:
                del graph[name]
        graph.y = torch.as_tensor(target(index, graph))
        graphs.append(graph)
    archive = GraphArchive.from_data_list(graphs)
    return GraphDataset(archive, memory_spectra(archive))


def _fit(dataset, outputs, epochs=80, **changes):
    pooling = "none" if outputs.level == "node" else "sum"
    model = Eigenformer(small_config(pooling=pooling, out_channels=outputs.num_outputs))
    training = TrainingConfig(
        batch_size=8, learning_rate=1e-2, epochs=epochs, warmup_epochs=2, **changes
    )
    task = TrainingModule(model, outputs, training)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=training.gradient_clip,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=epochs,
    )
    with quiet():
        trainer.fit(task, datamodule=GraphDataModule(dataset, dataset, batch_size=8))
    return task


def test_a_tiny_set_is_overfitted_to_near_zero_loss():
    dataset = _dataset(8, lambda index, _: torch.tensor([float(index % 3) - 1]))
    task = _fit(dataset, NumberTarget())
    assert task.logged["train_loss"] < 0.05
    assert evaluate(task.model, dataset, task.target)["mae"] < 0.1
    assert task.logged["val_mae"] == pytest.approx(
        evaluate(task.model, dataset, task.target, batch_size=8)["mae"], abs=1e-6
    )


def test_several_targets_with_missing_labels():
    def target(index, _):
        values = [float(index % 2), float(index % 4)]
        values[index % 2] = float("nan") if index < 4 else values[index % 2]
        return torch.tensor([values])

    task = _fit(_dataset(8, target), NumberTarget(num_outputs=2, mean=(0.5, 1.5), scale=(0.5, 1.1)))
    assert task.logged["train_loss"] < 0.1


@pytest.mark.parametrize(
    ("outputs", "target"),
    [
        (ClassTarget(num_outputs=3), lambda i, _: torch.tensor([i % 3])),
        (LabelTarget(num_outputs=2, kind="multilabel"),
         lambda i, _: torch.tensor([[i % 2, i % 3 > 0]]).float()),
        (LabelTarget(level="node"), lambda _, g: (g.x[:, 0] > 10).long()),
        (ClassTarget(level="node", num_outputs=3), lambda _, g: g.x[:, 0] % 3),
    ],
    ids=["classes", "labels", "node labels", "node classes"],
)  # fmt: skip
def test_every_kind_of_task_is_learnt(outputs, target):
    task = _fit(_dataset(9, target), outputs, epochs=40)
    assert task.logged["train_loss"] < 0.2
    assert task.logged[f"val_{outputs.metric}"] > 0.95


@pytest.mark.parametrize(("share", "batches"), [(0.0, 0), (0.25, 1), (0.5, 2), (1.0, 4)])
def test_frozen_norms_keep_their_statistics(share, batches):
    dataset = _dataset(4, lambda i, _: torch.tensor([1.0]))
    task = _fit(dataset, NumberTarget(), 4, freeze_norms_after=share)
    for norm in (task.model.input_norm, task.model.layers[0].norm1):
        assert norm.num_batches_tracked == batches
        assert torch.equal(norm.running_mean, torch.zeros_like(norm.running_mean)) == (not batches)


def test_a_nan_loss_stops_training_and_says_where():
    dataset = _dataset(4, lambda i, _: torch.tensor([1.0]))
    dataset.archive.fields["y"].values[:] = np.inf
    with pytest.raises(TrainingError, match=r"the loss is inf in epoch 1, step 1.*lower --lr"):
        _fit(dataset, NumberTarget(), 2)
