"""Averaged weights: validated, saved and tested; never trained with."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenformer import Eigenformer
from eigenformer.cli import main
from eigenformer.config import ConfigError, TrainingConfig
from eigenformer.targets import NumberTarget
from eigenformer.trained_model import TrainedModel
from eigenformer.training import GraphDataModule, TrainingModule, evaluate
from eigenformer.training.averaging import moving_average
from eigenformer.training.in_memory import fit_in_memory
from eigenformer.training.modes import recompute_statistics
from eigenformer.training.run_folder import RunFolder
from eigenformer.training.trainer import make_trainer, quiet
from tests.graphs import random_batch, small_config
from tests.training.samples import SMALL


def test_the_average_follows_its_equation():
    model = nn.BatchNorm1d(2).double()
    average = moving_average(model, decay=0.3)
    expected = torch.zeros(2, dtype=torch.float64)
    for step in range(6):
        with torch.no_grad():
            model.weight.normal_()
            model(torch.randn(5, 2, dtype=torch.float64))
        average.update_parameters(model)
        decay = min(0.3, (1 + step) / (10 + step)) if step else 0.0
        expected = decay * expected + (1 - decay) * model.weight.detach()
    torch.testing.assert_close(average.module.weight, expected)
    assert torch.equal(average.module.running_mean, model.running_mean)
    assert not average.module.weight.requires_grad


def test_what_does_not_change_is_its_own_average():
    model = Eigenformer(small_config())
    model(random_batch([5, 6]))
    average = moving_average(model, 0.995)
    for _ in range(20):
        average.update_parameters(model)
    for name, value in model.state_dict().items():
        assert torch.equal(average.module.state_dict()[name], value), name


def test_the_settings_are_checked():
    with pytest.raises(ConfigError, match=r"average_weights: must be in \[0, 1\), got 1.0"):
        TrainingConfig(8, 0.1, 1, 0, average_weights=1.0)
    with pytest.raises(ConfigError, match="average_weights: requires recompute_statistics"):
        TrainingConfig(8, 0.1, 1, 0, average_weights=0.9)
    TrainingConfig(8, 0.1, 1, 0, average_weights=0.9, freeze_norms_after=0.0)


@pytest.fixture(scope="module")
def runs(table, tmp_path_factory):
    """The folders of two runs that differ only in whether they average the weights."""
    folders = {}
    for decay in ("0", "0.5"):
        folders[decay] = tmp_path_factory.mktemp("runs") / decay
        options = ["--training.recompute_statistics", "2", "--training.average_weights", decay]
        command = ["train", str(table), "--target", "weight", "--out", str(folders[decay])]
        # With such steps, the last epoch is not the best one.
        large = ["--preset", "zinc", "--lr", "0.5"]
        assert main([*command, *SMALL, *options, *large]) == 0
    return folders


def test_training_goes_on_with_the_weights_themselves(runs):
    plain, averaged = (RunFolder(runs[decay]).read_metrics() for decay in ("0", "0.5"))
    for name in ("train_loss", "train_mae"):
        assert [row[name] for row in plain] == [row[name] for row in averaged]
    assert [row["val_mae"] for row in plain] != [row["val_mae"] for row in averaged]


def test_the_saved_model_is_the_one_that_was_validated_and_tested(runs):
    trained, summary = TrainedModel.open(runs["0.5"]), RunFolder(runs["0.5"]).read_summary()
    assert summary["best_epoch"] < summary["epochs"]
    for split, expected in (("val", summary["best_validation"]), ("test", summary["test"])):
        found = trained.evaluate(trained.graphs(split=split))["mae"]
        assert found == pytest.approx(expected, rel=1e-5)


def _fitted(given, **changes):
    config, data = given
    config = config.replace(training=config.training.replace(epochs=2, **changes).to_dict())
    torch.manual_seed(0)
    task = TrainingModule(Eigenformer(config.model), data.target, config.training)
    graphs = GraphDataModule(data.dataset("train"), data.dataset("val"), batch_size=16)
    trainer = make_trainer(config, [], enable_checkpointing=False)
    with quiet():
        trainer.fit(task, datamodule=graphs)
    return task, graphs


@pytest.fixture(scope="module")
def data(runs):
    from eigenformer.training import plan

    return plan(RunFolder(runs["0"]).read_config().to_dict())


def test_statistics_are_those_of_the_averaged_weights(data):
    task, graphs = _fitted(data, recompute_statistics=2, average_weights=0.9)
    expected = Eigenformer(task.model.config)
    expected.load_state_dict(task.validated.state_dict())
    loader = graphs.train_dataloader()
    loader.batch_sampler.set_epoch(1)
    recompute_statistics(expected, list(loader)[:2])
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(task.validated.state_dict()[name], value)
    assert not torch.equal(task.model.input_norm.running_mean, expected.input_norm.running_mean)


def test_frozen_statistics_stay_as_they_are(data):
    task, _ = _fitted(data, freeze_norms_after=0.0, recompute_statistics=2, average_weights=0.9)
    for norm in (task.validated.input_norm, task.validated.layers[0].norm1):
        assert torch.equal(norm.running_mean, torch.zeros_like(norm.running_mean))
        assert torch.equal(norm.running_var, torch.ones_like(norm.running_var))


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_the_logged_metric_is_that_of_the_validated_model(data, decay):
    task, graphs = _fitted(data, recompute_statistics=2, average_weights=decay)
    found = evaluate(task.validated, graphs.val, task.target, 16)["mae"]
    assert found == pytest.approx(task.logged["val_mae"], rel=1e-5)
    assert (task.validated is task.model) == (decay == 0)
    assert isinstance(task.target, NumberTarget)


def test_training_in_memory_ends_with_the_average_of_the_best_epoch(data):
    config, given = data
    training = config.training.replace(recompute_statistics=2, average_weights=0.9, epochs=2)
    model, train, val = Eigenformer(config.model), given.dataset("train"), given.dataset("val")
    config = config.replace(training=training.to_dict())
    rows = fit_in_memory(model, given.target, config, train, val)
    found = evaluate(model, val, given.target, 16)["mae"]
    assert found == pytest.approx(min(row["val_mae"] for row in rows), rel=1e-5)
