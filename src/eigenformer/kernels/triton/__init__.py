"""Attention in Triton, for GPUs. Nothing here imports Triton until it is used."""

from eigenformer.kernels.triton.kernel import TritonAttention

__all__ = ["TritonAttention"]
