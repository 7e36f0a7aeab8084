"""Descriptors of graphs → vectors, beside the pooled graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

_LARGEST = 5.0


class DescriptorEncoder(nn.Module):
    """Standardises descriptors and maps them to a vector of width d.

    The means and deviations are those of the training set, see :meth:`fit`. They are buffers, so
    they are saved with the weights. A missing descriptor, NaN, is replaced by its mean; the others
    are at most five deviations from it.

    Args:
        num_descriptors: The number of descriptors per graph.
        channels: d, the width to encode to.
        dropout: Dropout on the vector.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, num_descriptors: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(num_descriptors, channels)
        self.dropout = dropout
        self.register_buffer("mean", torch.zeros(num_descriptors))
        self.register_buffer("scale", torch.ones(num_descriptors))

    @torch.no_grad()
    def fit(self, values: Tensor) -> None:
        """Takes the mean and the deviation of each descriptor from the training set ``[B, k]``.

        A constant descriptor, and one that is never known, is always 0 after standardisation.
        """
        values = values.double()
        known = values.isfinite()
        count = known.sum(0).clamp(min=1)
        mean = values.where(known, 0).sum(0) / count
        deviation = ((values - mean).where(known, 0).square().sum(0) / count).sqrt()
        constant = deviation <= 1e-6 * mean.abs()
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(constant, torch.inf, deviation).reciprocal())

    def forward(self, batch: Data, num_graphs: int) -> Tensor:
        """Returns the vectors of the graphs, ``[B, d]``."""
        values = batch.get("descriptors")
        if values is None:
            raise ValueError(
                f"the graphs have no descriptors, but the model needs {len(self.mean)} of each"
            )
        if values.shape != (num_graphs, len(self.mean)):
            raise ValueError(
                f"descriptors: shape {tuple(values.shape)}, expected {num_graphs, len(self.mean)}"
            )
        values = (values.to(self.mean) - self.mean) * self.scale
        values = values.nan_to_num(0.0).clamp(-_LARGEST, _LARGEST)
        return F.dropout(F.relu(self.linear(values)), self.dropout, self.training)
