"""The learning rate per step: linear warm-up, then cosine decay to about 0."""

from __future__ import annotations

import math


def learning_rate_factor(step: int, warmup_steps: int, total_steps: int) -> float:
    """Returns the learning rate of a step, counted from 0, as a fraction of the peak."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def warmup_steps(warmup_epochs: float, steps_per_epoch: int) -> int:
    """Returns the number of warm-up steps."""
    return round(warmup_epochs * steps_per_epoch)
