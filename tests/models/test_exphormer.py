"""Exphormer's additional edges."""

from __future__ import annotations

import torch

from eigenformer.models import build_model
from tests.models.test_networks import config


def test_expanders_and_virtual_nodes() -> None:
    model = build_model(config("exphormer", expander_degree=4, virtual_nodes=2))
    node_graph = torch.tensor([0] * 5 + [1] * 3)
    index, kinds = model._more_edges((5, 3), node_graph, 8)
    graph = torch.cat([node_graph, torch.tensor([0, 0, 1, 1])])
    assert (graph[index[0]] == graph[index[1]]).all()
    expander = index[:, kinds == 0]
    assert expander.max() < 8
    # A permutation and its inverse give every node two neighbours, up to loops.
    assert expander[1].bincount(minlength=8).tolist() == [4] * 8
    assert expander[0].bincount(minlength=8).tolist() == [4] * 8
    to, of = index[:, kinds == 1], index[:, kinds == 2]
    assert torch.equal(to, of.flip(0))
    assert to[1].bincount(minlength=12).tolist() == [0] * 8 + [5, 5, 3, 3]
    # The same graph has the same expander in any batch.
    alone, kinds = model._more_edges((3,), torch.zeros(3, dtype=torch.long), 3)
    assert torch.equal(alone[:, kinds == 0] + 5, expander[:, expander[0] >= 5])
