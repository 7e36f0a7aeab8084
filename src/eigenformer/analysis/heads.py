"""Where each head looks: the attention of a trained model on one graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.models.eigenformer import Eigenformer
from eigenformer.training.modes import evaluation_mode


@dataclass(frozen=True, eq=False)
class HeadAttention:
    """A model's prediction for one graph, and all its attention.

    Args:
        prediction: ``[1, out]``, or ``[n, out]`` for a node task; raw, as the model gives it.
        weights: ``[layers, heads, n, n]``; row i says where node i looks, and sums to 1.
    """

    prediction: Tensor
    weights: Tensor


@torch.no_grad()
def attention_of(model: Eigenformer, data: Data) -> HeadAttention:
    """What a model predicts for a graph and where its heads look, in evaluation mode."""
    with evaluation_mode(model):
        prediction, layers = model(data, return_attention=True)
    return HeadAttention(prediction, torch.stack([graphs[0] for graphs in layers]))
