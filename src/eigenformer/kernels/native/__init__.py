"""Attention in compiled C++ on the CPU: an optional library, and what it needs around it."""

from eigenformer.kernels.native.kernel import NativeAttention
from eigenformer.kernels.native.library import load

__all__ = ["NativeAttention", "load"]
