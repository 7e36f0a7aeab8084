"""The compiled library behind its C interface: loaded once, or a reason why it is missing."""

from __future__ import annotations

import ctypes
import importlib.machinery
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from eigenformer.kernels.native.address import address
from eigenformer.kernels.native.structures import (
    STRUCTURES,
    AttentionCall,
    Evaluation,
    FilterCall,
    GateCall,
    Gradients,
    Networks,
    first_difference,
    layout_of,
    parse_layout,
)


class Library:
    """The functions of the compiled library. They raise a ``ValueError`` if they fail."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.eigenformer_instructions.restype = ctypes.c_char_p
        self._check_layout()

    def _check_layout(self) -> None:
        """Raises ``OSError`` unless library and package agree on every field of every structure."""
        other = f"{self.path.name} was built from another version of its source"
        if not hasattr(self._library, "eigenformer_structures"):
            raise OSError(other)
        self._library.eigenformer_structures.restype = ctypes.c_char_p
        text = self._library.eigenformer_structures().decode()
        difference = first_difference(layout_of(STRUCTURES), parse_layout(text))
        if difference is not None:
            raise OSError(f"{other}: {difference}")

    @property
    def instructions(self) -> str:
        """Instruction set in use, chosen for this machine."""
        return str(self._library.eigenformer_instructions().decode())

    def use_instructions(self, name: str) -> None:
        """Selects another instruction set than the best one, for comparisons."""
        if self._library.eigenformer_use_instructions(name.encode()):
            raise ValueError(f"'{name}' was not compiled, or is not of this processor")

    @property
    def shares_threads(self) -> bool:
        """Whether the library uses the threads of PyTorch's OpenMP runtime."""
        return bool(self._library.eigenformer_shares_threads())

    def forward(self, call: AttentionCall) -> None:
        """Fills the outputs of ``call``."""
        self._call(self._library.eigenformer_forward, ctypes.byref(call))

    def backward(self, call: AttentionCall, gradients: Gradients) -> None:
        """Fills ``gradients``, except for ``d_out``, which is an input."""
        arguments = ctypes.byref(call), ctypes.byref(gradients)
        self._call(self._library.eigenformer_backward, *arguments)

    def filter(self, call: FilterCall) -> None:
        """Fills the outputs of ``call``: the gradients if there is a ``d_importance``."""
        self._call(self._library.eigenformer_filter, ctypes.byref(call))

    def gate(self, call: GateCall) -> None:
        """Fills the outputs of ``call``: the gradients if there is a ``d_out``."""
        self._call(self._library.eigenformer_gate, ctypes.byref(call))

    def evaluate(self, evaluation: Evaluation, backward: bool = False) -> None:
        """Evaluates scalar functions or, with ``backward``, fills the gradients of their pieces."""
        arguments = ctypes.byref(evaluation), ctypes.c_int(backward)
        self._call(self._library.eigenformer_evaluate, *arguments)

    def linear_pieces(self, networks: Networks) -> int:
        """Fills as many pieces as there is room for; returns the largest number of any function."""
        segments = ctypes.c_int64()
        arguments = ctypes.byref(networks), ctypes.byref(segments)
        self._call(self._library.eigenformer_linear_pieces, *arguments)
        return segments.value

    def linear_pieces_backward(self, networks: Networks) -> None:
        """Fills the gradients of weights and biases."""
        self._call(self._library.eigenformer_linear_pieces_backward, ctypes.byref(networks))

    def dropout(self, sizes: Tensor, heads: int, dropout: float, seed: int) -> Tensor:
        """Returns the factors that dropout applies, ``[heads, Σn²]``."""
        sizes = sizes.to("cpu", torch.long).contiguous()
        keep = torch.empty(heads, int(sizes.square().sum()))
        self._call(
            self._library.eigenformer_dropout,
            ctypes.c_uint64(seed),
            ctypes.c_float(dropout),
            ctypes.c_int64(heads),
            ctypes.c_int64(len(sizes)),
            ctypes.c_void_p(sizes.data_ptr()),
            ctypes.c_int64(keep.size(1)),
            ctypes.c_void_p(keep.data_ptr()),
        )
        return keep

    def longest_row(
        self, first_node: Tensor, first_frequency: Tensor, eigenvectors: Tensor
    ) -> float:
        """Returns max_i ‖u[i]‖² over the rows of all U, which are flattened and concatenated."""
        graphs = len(first_node) - 1
        if graphs < 1:
            raise ValueError("first_node: expected at least one graph")
        longest = ctypes.c_float()
        offsets, entries = (graphs + 1,), (eigenvectors.numel(),)
        self._call(
            self._library.eigenformer_longest_row,
            ctypes.c_int64(graphs),
            ctypes.c_void_p(address(first_node, "first_node", offsets, torch.int64)),
            ctypes.c_void_p(address(first_frequency, "first_frequency", offsets, torch.int64)),
            ctypes.c_int64(eigenvectors.numel()),
            ctypes.c_void_p(address(eigenvectors, "eigenvectors", entries)),
            ctypes.byref(longest),
        )
        return longest.value

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        message = ctypes.create_string_buffer(256)
        if function(*arguments, message, ctypes.c_int64(len(message))):
            raise ValueError(f"native attention: {message.value.decode()}")


@cache
def load() -> tuple[Library | None, str]:
    """Returns the library, or None and the reason why it is missing."""
    folder = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"_native{suffix}"
        if path.exists():
            try:
                return Library(path), ""
            except OSError as error:
                return None, f"the compiled kernel cannot be loaded ({error}); install again"
    return None, (
        "the kernel was not compiled when the package was installed; install a C++17 compiler "
        "(GCC or Clang), then install again"
    )


def library() -> Library:
    """Returns the library, or raises a ``ValueError`` with the reason why it is missing."""
    found, reason = load()
    if found is None:
        raise ValueError(f"native attention: {reason}")
    return found
