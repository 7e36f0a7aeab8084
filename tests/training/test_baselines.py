"""The networks a result is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenformer.config import load_preset
from eigenformer.data import prepare
from eigenformer.training import plan
from eigenformer.training.baselines import NETWORKS, Baseline, majority, train_baseline

SETTINGS = {
    "preset": "pattern",
    "data": {"dataset": "pattern", "size": 40},
    "model": {"layers": 2, "hidden_dim": 16, "phi_width": 4},
    "training": {"epochs": 2, "batch_size": 8},
}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_baseline_is_of_the_same_size(network: str) -> None:
    config = load_preset("pattern").model.replace(layers=4)
    assert Baseline(network, config).num_parameters() == pytest.approx(159361, rel=0.06)


@pytest.mark.parametrize("network", NETWORKS)
def test_messages_come_along_the_edges(network: str, tmp_path: Path) -> None:
    """The sparse product against PyG's own message passing, edge by edge."""
    config = load_preset("pattern").model.replace(layers=2)
    batch = prepare("pattern", size=40, cache_dir=tmp_path).dataset("train").batch([0, 3])
    batch.edge_index = batch.edge_index[:, ::2]  # not symmetric any more
    model = Baseline(network, config, 16).eval()
    x = model.layers(model.encoder(batch.x), batch.edge_index)
    torch.testing.assert_close(model(batch), model.head(x), rtol=1e-4, atol=1e-5)


def test_training_repeats_itself_and_chance_is_one_half(tmp_path: Path) -> None:
    config, data = plan(SETTINGS, cache_dir=tmp_path)
    first, second = (train_baseline("GIN", config, data) for _ in range(2))
    assert first == second
    assert 0.3 < first.test < 1
    assert majority(data).test == pytest.approx(0.5)
