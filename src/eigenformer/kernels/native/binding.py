"""The compiled library behind its C interface: loaded once, or the reason why it is not there."""

from __future__ import annotations

import ctypes
import importlib.machinery
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_COUNTS = (
    "graphs",
    "nodes",
    "frequencies",
    "heads",
    "channels",
    "segments",
    "edges",
    "edge_kinds",
    "factors",
    "entries",
)
_INDICES = ("first_node", "first_frequency", "first_edge", "edge_source", "edge_kind")
_INPUTS = (
    "edge_coefficients",
    "eigenvectors",
    "importance",
    "knots",
    "slopes",
    "intercepts",
    "values",
    "queries",
    "keys",
    "edge_logits",
    "edge_values",
)
_OUTPUTS = ("out", "maximum", "inverse")
_GRADIENTS = (
    "d_out",
    "importance",
    "slopes",
    "intercepts",
    "values",
    "queries",
    "keys",
    "edge_logits",
    "edge_values",
)


class Problem(ctypes.Structure):
    """``Problem`` of problem.h, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _COUNTS),
        *((name, ctypes.c_void_p) for name in (*_INDICES, *_INPUTS)),
        ("seed", ctypes.c_uint64),
        ("dropout", ctypes.c_float),
        ("psi", ctypes.c_int32),
        ("shared_kinds", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in _OUTPUTS),
    )


class Gradients(ctypes.Structure):
    """``Gradients`` of problem.h, field by field."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in _GRADIENTS)


class Pieces(ctypes.Structure):
    """``Pieces`` of problem.h, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("functions", "segments", "count", "heads")),
        *((name, ctypes.c_void_p) for name in ("x", "knots", "slopes", "intercepts", "y")),
        *((name, ctypes.c_void_p) for name in ("d_slopes", "d_intercepts")),
    )


class Networks(ctypes.Structure):
    """``Networks`` of problem.h, field by field."""

    _fields_ = (
        *((n, ctypes.c_int64) for n in ("functions", "heads", "width", "depth", "capacity")),
        *((n, ctypes.POINTER(ctypes.c_void_p)) for n in ("weights", "biases")),
        *((n, ctypes.c_void_p) for n in ("low", "high", "knots", "slopes", "intercepts")),
        *((n, ctypes.POINTER(ctypes.c_void_p)) for n in ("d_weights", "d_biases")),
        ("threads", ctypes.c_int64),
    )


class Library:
    """The functions of the compiled library; a failure is a ``ValueError``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.eigenformer_instructions.restype = ctypes.c_char_p
        self._library.eigenformer_layout.restype = ctypes.c_int64
        layout = 0
        for structure in (Problem, Gradients, Pieces, Networks):
            layout = 1000 * layout + ctypes.sizeof(structure)
        if self._library.eigenformer_layout() != layout:
            raise OSError(f"{path.name} was built from another version of its source")

    @property
    def instructions(self) -> str:
        """The instruction set in use, chosen on this machine."""
        return str(self._library.eigenformer_instructions().decode())

    def use_instructions(self, name: str) -> None:
        """Computes with another instruction set than the best one, to compare them."""
        if self._library.eigenformer_use_instructions(name.encode()):
            raise ValueError(f"'{name}' was not compiled, or is not of this processor")

    @property
    def shares_threads(self) -> bool:
        """Whether the threads are those of PyTorch's OpenMP runtime."""
        return bool(self._library.eigenformer_shares_threads())

    def forward(self, problem: Problem) -> None:
        """Fills the outputs of ``problem``."""
        self._call(self._library.eigenformer_forward, ctypes.byref(problem))

    def backward(self, problem: Problem, gradients: Gradients) -> None:
        """Fills ``gradients`` but for ``d_out``, which is given."""
        arguments = ctypes.byref(problem), ctypes.byref(gradients)
        self._call(self._library.eigenformer_backward, *arguments)

    def pieces(self, pieces: Pieces, backward: bool = False) -> None:
        """Evaluates scalar functions, or fills the gradients of their pieces."""
        self._call(self._library.eigenformer_pieces, ctypes.byref(pieces), ctypes.c_int(backward))

    def linear_pieces(self, networks: Networks) -> int:
        """Fills what there is room for; returns how many pieces the function with the most has."""
        segments = ctypes.c_int64()
        arguments = ctypes.byref(networks), ctypes.byref(segments)
        self._call(self._library.eigenformer_linear_pieces, *arguments)
        return segments.value

    def linear_pieces_backward(self, networks: Networks) -> None:
        """Fills the gradients of weights and biases."""
        self._call(self._library.eigenformer_linear_pieces_backward, ctypes.byref(networks))

    def dropout(self, sizes: Tensor, heads: int, dropout: float, seed: int) -> Tensor:
        """The factors that dropout applies, ``[heads, Σn²]``."""
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
        """max_i ‖u[i]‖² over the rows of all U."""
        eigenvectors = eigenvectors.contiguous()
        longest = ctypes.c_float()
        self._call(
            self._library.eigenformer_longest_row,
            ctypes.c_int64(len(first_node) - 1),
            ctypes.c_void_p(first_node.data_ptr()),
            ctypes.c_void_p(first_frequency.data_ptr()),
            ctypes.c_int64(eigenvectors.numel()),
            ctypes.c_void_p(eigenvectors.data_ptr()),
            ctypes.byref(longest),
        )
        return longest.value

    def _call(self, function: Callable[..., int], *arguments: object) -> None:
        message = ctypes.create_string_buffer(256)
        if function(*arguments, message, ctypes.c_int64(len(message))):
            raise ValueError(f"native attention: {message.value.decode()}")


@cache
def load() -> tuple[Library | None, str]:
    """The library, or None and the reason."""
    folder = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"_native{suffix}"
        if path.exists():
            try:
                return Library(path), ""
            except OSError as error:
                return None, f"the compiled kernel cannot be loaded: {error}"
    return None, "the kernel was not compiled when the package was installed (no C++ compiler?)"


def library() -> Library:
    """The library, or a ``ValueError`` that says why it is not there."""
    found, reason = load()
    if found is None:
        raise ValueError(f"native attention: {reason}")
    return found
