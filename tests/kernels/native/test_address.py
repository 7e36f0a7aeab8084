"""Addresses: only of memory that is there."""

from __future__ import annotations

import pytest
import torch

from eigenformer.kernels.native.address import address


def test_the_address_is_that_of_the_first_entry() -> None:
    x = torch.arange(6.0)
    assert address(x, "x", (6,)) == x.data_ptr()
    assert address(x[2:], "x", (4,)) == x.data_ptr() + 8
    assert address(None, "x", (6,)) is None
    assert address(x[:0], "x", (0,))  # an address, though of nothing


@pytest.mark.parametrize("rest", [0, 4, 20])
def test_memory_that_was_freed_or_shrunk_is_an_error(rest: int) -> None:
    x = torch.ones(6)
    last = x[4:]
    x.untyped_storage().resize_(rest)
    for part in (x, last):
        with pytest.raises(ValueError, match="x: its memory was freed"):
            address(part, "x", part.shape)
