"""Attention of one graph by loops over pairs and heads, with the dense e_ij: slow and obvious.

The literal kernel is the oracle of the others; this is the oracle of the literal kernel.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer import ScalarMLP, SpectrumAwareAttention


def phi(network: ScalarMLP, head: int, x: float) -> float:
    """One head's scalar network on one number."""
    hidden = torch.tensor([x], dtype=torch.float64)
    for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        hidden = weight[head].double() @ (hidden.relu() if layer else hidden) + bias[head].double()
    return hidden.item()


@torch.no_grad()
def attend(
    layer: SpectrumAwareAttention,
    x: Tensor,
    data: Data,
    edge_attr: Tensor | None = None,
    no_edge: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The layer's output ``[n, d]`` and its attention ``[heads, n, n]``, in float64."""
    layer = layer.double()
    x = x.double()
    n, d, heads = len(x), layer.channels, layer.heads
    size = d // heads
    values, u = data.eigenvalues.double(), data.eigenvectors.view(n, -1).double()
    e = None
    if edge_attr is not None:
        none = torch.zeros(d) if no_edge is None else no_edge
        e = none.double().expand(n, n, d).clone()
        edges = set()
        for (j, i), row in zip(data.edge_index.T.tolist(), edge_attr.double(), strict=True):
            # e_ij belongs to the edge j → i; parallel edges are summed
            e[i, j] = e[i, j] + row if (i, j) in edges else row
            edges.add((i, j))
    attended, attention = torch.zeros(n, d).double(), torch.zeros(heads, n, n).double()
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        importance = torch.tensor([phi(layer.phi2, h, v) for v in values.tolist()]).double()
        logits = torch.zeros(n, n).double()
        for i in range(n):
            for j in range(n):
                score = float((u[i] * u[j] * importance).sum())
                logits[i, j] = phi(layer.phi1, h, score)
                if layer.feature_attention:
                    q, k = layer.query(x[i])[part], layer.key(x[j])[part]
                    product = float(q @ k) / math.sqrt(size)
                    if layer.psi == "signed_sqrt":
                        product = product / math.sqrt(abs(product) + 1e-6)
                    logits[i, j] += product
                    if e is not None:
                        hidden = layer.edge_hidden(e[i, j])[part].relu()
                        logits[i, j] += hidden @ layer.edge_logit_weight[h]
                        logits[i, j] += layer.edge_logit_bias[h]
        attention[h] = logits.softmax(1)
        for i in range(n):
            for j in range(n):
                message = layer.value(x[j])[part]
                if e is not None:
                    message = message + layer.edge_value(e[i, j])[part]
                attended[i, part] += attention[h, i, j] * message
    return layer.out(attended), attention
