"""Numbers on their way to a device: copies that nobody waits for, and types that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def on_device(
    numbers: Sequence[Any] | Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Copies numbers to a device without waiting for it."""
    tensor = torch.as_tensor(numbers, dtype=dtype)
    if device.type == "cuda" and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def widened(x: Tensor) -> Tensor:
    """Returns ``x`` in float64, or in float32 on a device that has no float64."""
    return x.to(torch.float64 if has_float64(x.device) else torch.float32)


def has_float64(device: torch.device) -> bool:
    """Returns whether a device computes in float64."""
    return device.type != "mps"
