"""Addresses of tensors, for the library: checked before they are taken."""

from __future__ import annotations

import torch
from torch import Tensor

_NOTHING = torch.zeros(1)


def address(
    x: Tensor | None,
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
) -> int | None:
    """Where the tensor lies; None for None. An error if it is not what the library expects."""
    if x is None:
        return None
    if not x.is_cpu or x.dtype != dtype:
        raise ValueError(f"{name}: {x.dtype} on {x.device}, expected {dtype} on the CPU")
    if x.shape != shape:
        raise ValueError(f"{name}: shape {tuple(x.shape)}, expected {tuple(shape)}")
    if not x.is_contiguous():
        raise ValueError(f"{name}: must be contiguous")
    if not x.numel():
        # An empty array has no address; the library would take it for a missing one.
        return _NOTHING.data_ptr()
    # A storage can be freed, or shrunk, below a tensor that still has its shape.
    end = (x.storage_offset() + x.numel()) * x.element_size()
    if x.untyped_storage().nbytes() < end:
        raise ValueError(f"{name}: its memory was freed")
    return x.data_ptr()
