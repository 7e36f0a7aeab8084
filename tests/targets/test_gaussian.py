"""Numbers with an uncertainty each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from eigenformer.cli import main
from eigenformer.config import ConfigError
from eigenformer.targets import Calibration, GaussianTarget, Target, infer_target
from tests.training.samples import SMALL, molecule_rows, read_rows, write_table

NAN = float("nan")
TARGET = GaussianTarget(num_outputs=2, names=("a", "b"), mean=(10.0, -2.0), scale=(4.0, 0.5))


def test_the_loss_is_that_of_pytorch(dtype):
    predictions = torch.randn(6, 4, dtype=dtype)
    targets = 10 + 4 * torch.randn(6, 2, dtype=dtype)
    targets[0, 1] = NAN
    known = ~targets.isnan()
    mean, variance = predictions[:, :2], predictions[:, 2:].exp()
    truth = TARGET.standardise(targets)
    theirs = F.gaussian_nll_loss(mean[known], truth[known], variance[known], reduction="sum")
    sums, counts = TARGET.loss_sums(predictions, targets)
    torch.testing.assert_close(sums, theirs.view(1))
    assert counts.tolist() == [11]
    weights = torch.tensor([0.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    alone = TARGET.loss_sums(predictions[1:2], targets[1:2])[0]
    torch.testing.assert_close(TARGET.loss_sums(predictions, targets, weights)[0], 2 * alone)


def test_the_loss_and_its_gradient_are_finite_for_any_output():
    predictions = torch.tensor([[0.0, 0.0, -1e4, 1e4]], requires_grad=True)
    loss = TARGET.mean_loss(*TARGET.loss_sums(predictions, torch.tensor([[11.0, NAN]])))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(predictions.grad).all()


def test_units_and_back():
    predictions = torch.randn(5, 4, dtype=torch.float64)
    found = TARGET.in_units(predictions)
    torch.testing.assert_close(found[:, :2], TARGET.restore(predictions[:, :2]))
    scale = torch.tensor(TARGET.scale, dtype=torch.float64)
    torch.testing.assert_close(found[:, 2:], (predictions[:, 2:] / 2).exp() * scale)
    torch.testing.assert_close(TARGET.from_units(found), predictions)


def test_a_mixture_has_the_deviation_of_samples_from_all_members():
    """Equal members leave the deviation as it is; members that disagree make it larger."""
    each = torch.tensor([[[0.0, 1.0]], [[4.0, 2.0]]], dtype=torch.float64)
    target = GaussianTarget()
    rng = torch.Generator().manual_seed(0)
    draws = torch.randn(2, 200_000, generator=rng, dtype=torch.float64)
    samples = torch.cat(
        [mean + wide * d for (mean, wide), d in zip(each[:, 0], draws, strict=True)]
    )
    found = target.mixed(each)[0]
    assert found.tolist() == pytest.approx([2.0, 6.5**0.5])
    assert found.tolist() == pytest.approx([float(samples.mean()), float(samples.std())], abs=0.02)
    torch.testing.assert_close(target.mixed(each[:1].expand(3, -1, -1)), each[0])


def test_intervals_are_as_wide_as_the_deviations():
    rng = np.random.default_rng(0)
    deviation = rng.uniform(0.1, 5.0, 4000)
    truth = 3.0 + deviation * rng.standard_normal(4000)
    predictions = np.stack([np.full(4000, 3.0), deviation], 1)
    target = GaussianTarget(names=("y",))
    scores = target.scores(predictions[:2000], truth[:2000, None])
    bounds = Calibration.from_scores(scores.T).bounds(0.9)
    assert bounds[0] == pytest.approx(1.645, rel=0.05)
    wide = deviation[2000:] > 2.5
    for part in (wide, ~wide):  # as often right for certain as for uncertain ones
        share = target.covered(predictions[2000:][part], truth[2000:][part, None], bounds)
        assert share[0] == pytest.approx(0.9, abs=0.03)
    low, high = map(float, target.interval_cells(np.array([3.0, 2.0]), np.array([1.5])))
    assert (low, high) == (0.0, 6.0)


def test_words_and_kinds():
    assert TARGET.said(np.array([1.5, -2.0, 0.25, 1.0])) == "a 1.5 ± 0.25, b −2 ± 1"
    assert TARGET.header() == ["predicted_a", "predicted_b", "deviation_a", "deviation_b"]
    assert Target.from_dict(TARGET.to_dict()) == TARGET
    assert infer_target(np.array([1.5, 2.5]), ("y",), "gaussian").width == 2
    assert TARGET.learned() == TARGET
    with pytest.raises(ConfigError, match="loss: 'l1' cannot be used for gaussian; there is no"):
        TARGET.learned("l1")


def test_from_a_table_to_predictions_of_an_ensemble(tmp_path):
    table = write_table(tmp_path / "m.csv", molecule_rows())
    options = ["--target", "weight", "--task", "gaussian", "--ensemble", "2", *SMALL]
    assert main(["train", str(table), "--out", str(tmp_path / "run"), *options]) == 0
    out = tmp_path / "p.csv"
    command = ["predict", str(tmp_path / "run"), str(table), "--interval", "0.5"]
    assert main([*command, "--out", str(out)]) == 0
    rows = read_rows(out)
    factors = []
    for row in rows:
        low, high = float(row["low_weight"]), float(row["high_weight"])
        middle, deviation = float(row["predicted_weight"]), float(row["deviation_weight"])
        assert (low + high) / 2 == pytest.approx(middle, rel=1e-4)
        factors.append((high - low) / 2 / deviation)
    assert factors == pytest.approx([factors[0]] * len(rows), rel=1e-4)
    assert len({row["deviation_weight"] for row in rows}) > len(rows) / 2
