"""Encodings of the structure (random walks, eigenvectors) → vectors beside the node features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.config import EncodingSpec, RandomWalkSpec


class RandomWalkEncoder(nn.Module):
    """Normalises and maps the return probabilities of random walks, ``batch.rwse``, as in `"Recipe
    for a General, Powerful, Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_.

    Args:
        width: Width to encode to.
        steps: Length of the longest walk.
    """

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(steps)
        self.linear = nn.Linear(steps, width)

    def forward(self, batch: Data, node_graph: Tensor) -> Tensor:
        """Returns ``[Σn, width]``."""
        shape = (len(node_graph), self.linear.in_features)
        return self.linear(self.norm(_attribute(batch, "rwse", shape, self.linear.weight)))


class LaplacianEncoder(nn.Module):
    r"""Encodes eigenvectors as a set of pairs of an entry and its eigenvalue, as in `"Recipe for a
    General, Powerful, Scalable Graph Transformer" <https://arxiv.org/abs/2205.12454>`_.

    .. math::
        p_i = \sum_m \rho \bigl( W_2 \, \rho( W_1 [ \pm u_m[i], \lambda_m ] ) \bigr)

    In training, every eigenvector of every graph has a random sign. The signs are drawn in the
    forward pass, from PyTorch's generator, which a training step seeds like that of dropout.

    Args:
        width: Width to encode to.
        vectors: Number of eigenvectors.
    """

    def __init__(self, width: int, vectors: int) -> None:
        super().__init__()
        self.vectors = vectors
        self.pairs = nn.Linear(2, 2 * width)
        self.out = nn.Linear(2 * width, width)

    def forward(self, batch: Data, node_graph: Tensor) -> Tensor:
        """Returns ``[Σn, width]``."""
        like, graphs = self.out.weight, int(node_graph[-1]) + 1
        entries = _attribute(batch, "lappe", (len(node_graph), self.vectors), like)
        values = _attribute(batch, "lappe_values", (graphs, self.vectors), like)
        if self.training:
            signs = torch.randint(0, 2, values.shape, device=values.device) * 2 - 1
            entries = entries * signs[node_graph]
        missing = (values < 0)[node_graph]  # graphs with fewer eigenvectors
        pairs = torch.stack([entries, values[node_graph]], -1)
        encoded = self.out(self.pairs(pairs).relu()).relu()
        return encoded.masked_fill(missing[..., None], 0.0).sum(1)


def build_encoding(spec: EncodingSpec) -> RandomWalkEncoder | LaplacianEncoder:
    """Builds the module that encodes what a specification asks for, with new weights."""
    if isinstance(spec, RandomWalkSpec):
        return RandomWalkEncoder(spec.width, spec.steps)
    return LaplacianEncoder(spec.width, spec.vectors)


def _attribute(batch: Data, name: str, shape: tuple[int, int], like: Tensor) -> Tensor:
    values = batch.get(name)
    if values is None:
        raise ValueError(
            f"the graphs have no '{name}', which the model encodes: take them from a GraphDataset "
            f"whose archive has the encoding (eigenformer.data.with_encoding)"
        )
    if values.numel() != shape[0] * shape[1]:
        raise ValueError(f"{name}: shape {tuple(values.shape)}, expected {shape}")
    return values.view(shape).to(like)
