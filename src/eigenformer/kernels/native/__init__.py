"""Attention in compiled C++ on the CPU: an optional library, and what it needs around it."""

from eigenformer.kernels.native.kernel import NativeAttention, supports
from eigenformer.kernels.native.library import library, load

__all__ = ["NativeAttention", "library", "load", "supports"]
