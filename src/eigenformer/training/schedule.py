"""The learning rate: linear warm-up, then a cosine down to about 0, step by step."""

from __future__ import annotations

import math


def learning_rate_factor(step: int, warmup_steps: int, total_steps: int) -> float:
    """The share of the peak learning rate in a step, counted from 0."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def warmup_steps(warmup_epochs: float, steps_per_epoch: int) -> int:
    """Whole steps of warm-up."""
    return round(warmup_epochs * steps_per_epoch)
