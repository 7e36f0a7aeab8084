"""Kernels that compute spectrum-aware attention: one interface, several implementations.

``literal`` follows the paper's equations line by line and is the oracle of all tests. ``torch``
is exact as well: it evaluates φ₁ through its linear pieces and groups graphs by size. ``native``
computes the same in compiled code, for float32 on the CPU, and is the default if it is available.
``triton`` does so on GPUs, and is the default there if it agrees with ``literal`` on the GPU.
Each kernel reports what it supports.
"""

from __future__ import annotations

from dataclasses import replace

from eigenformer import options
from eigenformer.kernels.base import AttentionKernel, AttentionTerms, EdgeTerms, PhiTable, Request
from eigenformer.kernels.literal import LiteralAttention
from eigenformer.kernels.native import NativeAttention
from eigenformer.kernels.torch import TorchAttention
from eigenformer.kernels.triton import TritonAttention
from eigenformer.lazy import find
from eigenformer.nearest import unknown
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

KERNELS: tuple[type[AttentionKernel], ...] = tuple(map(find, options.KERNELS.values()))
"""All kernels, the fastest first: ``auto`` selects the first that supports the request."""


def make_kernel(
    graphs: RaggedGraphs, backend: Backend = "auto", request: Request | None = None
) -> AttentionKernel:
    """Builds the kernel of a batch: everything about the batch that all layers share.

    Args:
        graphs: The batch, which determines type and device.
        backend: The name of the kernel.
        request: What else the kernel must support (default: spectral attention alone).
    """
    values = graphs.eigenvectors
    request = replace(request or Request(), dtype=values.dtype, device=values.device)
    return choose_kernel(request, backend)(graphs)


def choose_kernel(request: Request, backend: Backend = "auto") -> type[AttentionKernel]:
    """Returns the kernel named ``backend`` if it supports the request, else the fastest that does.

    Raises an error if the named kernel is not available on this machine.
    """
    named: list[type[AttentionKernel]] = []
    if backend != "auto":
        named = [kernel for kernel in KERNELS if kernel.name == backend]
        if not named:
            known = ("auto", *(kernel.name for kernel in KERNELS))
            raise ValueError(unknown(f"backend: '{backend}'", backend, known))
        reason = named[0].unavailable()
        if reason is not None:
            raise ValueError(f"backend: '{backend}': {reason}")
        if why_not(named[0], request) is None:
            return named[0]
    return next(k for k in KERNELS if (why_not(k, request) or k.doubts(request)) is None)


def why_not(kernel: type[AttentionKernel], request: Request) -> str | None:
    """Returns why a kernel cannot be used for a request; None if it can."""
    return kernel.unavailable() or kernel.unsupported(request)


__all__ = [
    "KERNELS",
    "AttentionKernel",
    "AttentionTerms",
    "Backend",
    "EdgeTerms",
    "LiteralAttention",
    "NativeAttention",
    "PhiTable",
    "Request",
    "TorchAttention",
    "TritonAttention",
    "choose_kernel",
    "make_kernel",
    "why_not",
]
