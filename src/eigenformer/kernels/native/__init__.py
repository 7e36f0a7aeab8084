"""Attention in compiled C++ on the CPU: an optional library and its binding to PyTorch."""

from eigenformer.kernels.native.binding import library, load
from eigenformer.kernels.native.kernel import NativeAttention

__all__ = ["NativeAttention", "library", "load"]
