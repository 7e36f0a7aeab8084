"""SAN against its equations, pair by pair."""

from __future__ import annotations

import torch

from eigenformer.blocks import Blocks
from eigenformer.models import build_model
from tests.models.test_networks import config


def test_attention_is_that_of_the_paper() -> None:
    layer = build_model(config("san", encoding=None, heads=2, gamma=0.3)).double().eval().layers[0]
    edge_index = torch.tensor([[1, 2, 3, 0, 2], [0, 0, 1, 2, 3]])
    blocks = Blocks.of([4], edge_index)
    x, edges = torch.randn(4, 16).double(), torch.randn(5, 16).double()
    others = torch.ones(1, 4, 4, dtype=torch.bool)
    others[0, edge_index[1], edge_index[0]] = False
    seen = []
    layer.out.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    layer(x, edge_index, edges, [others], blocks)
    (q1, k1), (q2, k2) = (part(x).chunk(2, 1) for part in (layer.near, layer.far))
    projected, values = layer.edge(edges), layer.value(x)
    for i in range(4):
        expected = torch.zeros(16).double()
        near = {j: e for e, (j, k) in enumerate(edge_index.T.tolist()) if k == i}
        for group, share in (
            (list(near), 1 / 1.3),
            ([j for j in range(4) if j not in near], 0.3 / 1.3),
        ):
            scores = []
            for j in group:
                product = (
                    q1[i] * k1[j] * projected[near[j]]
                    if j in near
                    else (q2[i] * k2[j] * layer.no_edge)
                )
                scores.append((product.view(2, 8).sum(1) / 8**0.5).clamp(-5, 5))
            if group:
                weights = torch.stack(scores).softmax(0)
                heads = (weights[..., None] * values[group].view(-1, 2, 8)).sum(0)
                expected += share * heads.flatten()
        torch.testing.assert_close(seen[0][i], expected)
