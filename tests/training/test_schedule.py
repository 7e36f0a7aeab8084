from __future__ import annotations

import pytest

from eigenformer.config import load_preset
from eigenformer.training.schedule import learning_rate_factor, warmup_steps


def test_warms_up_linearly_then_falls_as_a_cosine():
    factors = [learning_rate_factor(step, 10, 110) for step in range(110)]
    assert factors[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert factors[10] == 1
    assert factors[60] == pytest.approx(0.5)
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[-1] < 1e-3
    assert learning_rate_factor(110, 10, 110) == 0


def test_without_warm_up_it_starts_at_the_peak():
    assert learning_rate_factor(0, 0, 5) == 1


def test_warm_up_shrinks_with_the_epochs():
    zinc = load_preset("zinc").training
    short = zinc.with_epochs(30)
    assert short.warmup_epochs == pytest.approx(0.75)
    assert warmup_steps(short.warmup_epochs, 79) == 59
    assert warmup_steps(zinc.warmup_epochs, 79) == 50 * 79
