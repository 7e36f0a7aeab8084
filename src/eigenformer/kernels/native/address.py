"""Addresses of tensors for the library; every tensor is checked first."""

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
    """Returns the address of a tensor; None for None.

    Raises an error if the tensor is not what the library expects.
    """
    if x is None:
        return None
    if not x.is_cpu or x.dtype != dtype:
        raise ValueError(f"{name}: {x.dtype} on {x.device}, expected {dtype} on the CPU")
    if x.shape != shape:
        raise ValueError(f"{name}: shape {tuple(x.shape)}, expected {tuple(shape)}")
    if not x.is_contiguous():
        raise ValueError(f"{name}: must be contiguous")
    if not x.numel():
        # An empty tensor has no address, and the library would treat it as missing.
        return _NOTHING.data_ptr()
    # The storage can be freed or shrunk while the tensor still has its shape.
    end = (x.storage_offset() + x.numel()) * x.element_size()
    if x.untyped_storage().nbytes() < end:
        raise ValueError(f"{name}: its memory was freed")
    return x.data_ptr()
