"""What a training costs."""

from __future__ import annotations

import time

import pytest

from eigenformer.config import ConfigError
from eigenformer.data.workspace import Workspace
from eigenformer.experiments import cost
from eigenformer.experiments.cost import COSTS, Cost, measure_cost, measure_costs
from eigenformer.experiments.sweep import Variant
from eigenformer.training import TrainingModule, plan

TINY = {
    "data": {"dataset": "pattern", "size": 30},
    "model": {"layers": 1, "hidden_dim": 16, "phi_width": 4},
    "training": {"epochs": 5, "batch_size": 4},
    "threads": 1,
}


def test_steps_and_validation_are_measured_apart(monkeypatch):
    """With a slow average of the weights and a slow validation, each is found where it belongs."""
    config, data = plan(TINY)
    now = [0.0]
    monkeypatch.setattr(cost, "_now", lambda: now[0])

    def spend(seconds):
        def wait(*given: object) -> None:
            now[0] += seconds

        return wait

    monkeypatch.setattr(TrainingModule, "on_train_batch_end", spend(2.0))
    monkeypatch.setattr(TrainingModule, "on_validation_start", spend(3.0))
    found = measure_cost(config, data)
    assert found == Cost(
        step=2.0, validation=3.0, steps=len(range(0, len(data.splits["train"]), 4))
    )
    assert found.epoch == 2.0 * found.steps + 3.0


def test_real_seconds_are_measured_once(tmp_path, monkeypatch):
    variants = [Variant("a", {}), Variant("b", {"model": {"layers": 2}})]
    start = time.process_time()
    found = measure_costs(TINY, variants[:1], tmp_path, Workspace.resolve())
    assert 0 < found["a"].step < found["a"].epoch < time.process_time() - start
    before = (tmp_path / COSTS).read_text()
    both = measure_costs(TINY, variants, tmp_path, Workspace.resolve())
    assert both["a"] == found["a"]
    assert before != (tmp_path / COSTS).read_text()
    monkeypatch.delattr(cost, "measure_cost")
    assert measure_costs(TINY, variants, tmp_path, Workspace.resolve()) == both


def test_a_damaged_file_of_costs_is_named(tmp_path):
    (tmp_path / COSTS).write_text('{"a": {"step": 1.0}}')
    with pytest.raises(ConfigError, match="costs.json: damaged; delete it to measure again"):
        measure_costs(TINY, [Variant("a", {})], tmp_path, Workspace.resolve())
