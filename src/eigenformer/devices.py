"""The device to compute on: the only place that turns a name into a device of this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.nearest import unknown

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "cuda:N", "mps")
"""The names of devices. ``cuda:N`` stands for the GPU number N, such as ``cuda:1``."""


_PROCESSOR = Path("/proc/cpuinfo")
_BF16 = r"\b(avx512_bf16|amx_bf16|bf16)\b"  # x86 and ARM


def check_device(name: str) -> None:
    """Raises an error unless ``name`` is the name of a device. Does not import PyTorch."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise ValueError(unknown(f"device: '{name}'", name, DEVICES))


def resolve_device(name: str | torch.device = "auto") -> torch.device:
    """Returns the device with this name. Raises an error if this machine does not have it.

    Args:
        name: ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; ``auto`` is a GPU if PyTorch finds one
            with CUDA, and otherwise the CPU. It never selects ``mps``, which lacks float64.
    """
    import torch

    name = str(name)
    check_device(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise ValueError(f"device: '{name}' cannot be used: PyTorch finds no GPU with CUDA")
        if (device.index or 0) >= count:
            raise ValueError(f"device: '{name}' does not exist: the last GPU is cuda:{count - 1}")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device: 'mps' cannot be used: PyTorch finds no GPU with Metal")
    return device


def lacks_bf16() -> bool:
    """Returns whether the processor is known to have no instructions for products in bf16."""
    return _PROCESSOR.is_file() and not re.search(_BF16, _PROCESSOR.read_text("utf-8", "replace"))
