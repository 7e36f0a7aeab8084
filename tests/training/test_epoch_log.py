"""Which epoch is the best one."""

from __future__ import annotations

import math

import pytest

from eigenformer.training.epoch_log import EpochLog


def _best(rows: list[tuple[float, float]], higher: bool = True) -> int:
    """The best epoch of (metric, loss) of validation."""
    log = EpochLog()
    for epoch, (metric, loss) in enumerate(rows, 1):
        row = {"epoch": epoch, "val_f1": metric, "val_loss": loss}
        log.rows.append(row)
        if log._is_better(row, "val_f1", higher):
            log.best_epoch, log.best = epoch, metric
    return log.best_epoch


@pytest.mark.parametrize("higher", [True, False])
def test_the_loss_decides_between_equal_metrics(higher):
    assert _best([(0.5, 3.0), (0.5, 2.0), (0.5, 2.5)], higher) == 2
    assert _best([(0.5, 2.0), (0.5, 2.0)], higher) == 1


def test_the_metric_counts_first():
    assert _best([(0.5, 1.0), (0.6, 9.0), (0.4, 0.1)]) == 2
    assert _best([(0.5, 1.0), (0.6, 9.0), (0.4, 8.0)], higher=False) == 3


def test_a_metric_that_is_not_a_number_is_never_better_than_one_that_is():
    assert _best([(math.nan, 1.0), (0.1, 9.0), (math.nan, 0.5)]) == 2


def test_if_the_metric_is_never_a_number_the_loss_decides():
    assert _best([(math.nan, 3.0), (math.nan, 1.0), (math.nan, 2.0)]) == 2
    assert _best([(math.nan, math.nan), (math.nan, 1.0), (math.nan, math.nan)]) == 2
