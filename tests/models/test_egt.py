"""EGT against its equations, pair by pair."""

from __future__ import annotations

import torch

from eigenformer.blocks import Blocks
from eigenformer.models import build_model
from tests.models.test_networks import config


def test_a_layer_is_that_of_the_paper() -> None:
    layer = build_model(config("egt", heads=2, pair_width=6)).double().eval().layers[0]
    blocks = Blocks.of([4], torch.empty(2, 0).long())
    x, pairs = torch.randn(4, 16).double(), torch.randn(16, 6).double()
    found, found_pairs = layer(x, pairs, blocks)
    q, k, v = layer.in_proj(layer.node_norm(x)).view(4, 3, 2, 8).unbind(1)
    bias, gate = layer.bias_and_gate(layer.pair_norm(pairs)).view(4, 4, 2, 2).unbind(2)
    scores = (torch.einsum("ihc,jhc->ijh", q, k) / 8**0.5).clamp(-5, 5) + bias
    gates = gate.sigmoid()
    weights = scores.softmax(1) * gates
    attended = torch.einsum("ijh,jhc->ihc", weights, v) * (1 + gates.sum(1)).log()[..., None]
    nodes = x + layer.node_out(attended.flatten(1))
    torch.testing.assert_close(found, nodes + layer.node_network(nodes))
    states = pairs + layer.pair_out(scores.flatten(0, 1))
    torch.testing.assert_close(found_pairs, states + layer.pair_network(states))
    assert layer(x, pairs, blocks, last=True)[1] is pairs
