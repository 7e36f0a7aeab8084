"""GRIT against its equations, pair by pair."""

from __future__ import annotations

import torch
from torch_geometric.data import Batch
from torch_geometric.utils import softmax

from eigenformer.blocks import Blocks
from eigenformer.kernels.base import signed_sqrt
from eigenformer.models import build_model
from eigenformer.models.grit import GritLayer, pair_states
from tests.models.test_networks import config, graphs_for


def literal(layer: GritLayer, x: torch.Tensor, e: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Attention of one graph with all its pairs, ``e[i, j]``, as the paper writes it."""
    n, heads = len(x), layer.heads
    w, b = layer.pair(e).chunk(2, -1)
    product = (layer.query(x)[:, None] + layer.key(x)[None]) * w
    root = product.relu().sqrt() - (-product).relu().sqrt()
    state = (root + b).relu()
    by_head = state.view(n, n, heads, -1)
    scores = (by_head * layer.score).sum(-1).clamp(-5, 5)
    weights = softmax(scores.flatten(0, 1), torch.arange(n).repeat_interleave(n)).view(n, n, heads)
    values = layer.value(x).view(1, n, heads, -1)
    values = values + torch.einsum("ijhc,hcd->ijhd", by_head, layer.pair_value)
    return (weights[..., None] * values).sum(1).flatten(1), state.flatten(0, 1)


def test_attention_is_that_of_the_paper() -> None:
    made = config("grit", hidden_dim=16)
    layer = build_model(made).double().eval().layers[0]
    blocks = Blocks.of([6], torch.empty(2, 0).long())
    x, pairs = torch.randn(6, 16).double(), torch.randn(36, 16).double()
    found, states = layer._attend(x, pairs, blocks)
    expected, expected_states = literal(layer, x, pairs.view(6, 6, 16))
    # The signed square root here has a finite slope at 0.
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(states, expected_states, rtol=1e-3, atol=2e-3)


def test_gradients_of_pair_states() -> None:
    """The hand-written backward pass, over blocks of several sizes."""
    sizes = [3, 2, 3]
    blocks = Blocks.of(sizes, torch.empty(2, 0).long())
    shapes = ((8, 4), (8, 4), (blocks.num_pairs, 8))
    given = [torch.randn(*shape).double().requires_grad_() for shape in shapes]
    assert torch.autograd.gradcheck(lambda *x: pair_states(*x, blocks), given, eps=1e-7, atol=1e-4)
    query, key, pair = given
    factor, shift = pair.chunk(2, 1)
    first = (query[:2, None] + key[None, :2]).flatten(0, 1) * factor[:4]
    expected = (signed_sqrt(first) + shift[:4]).relu()  # the graph of two nodes
    torch.testing.assert_close(pair_states(*given, blocks)[:4], expected)


def test_pairs_start_from_walks_and_edges() -> None:
    """A pair without an edge, and the loops of nodes, have their random-walk probabilities only."""
    made = config("grit", layers=1)
    model = build_model(made).double().eval()
    batch = Batch.from_data_list(graphs_for(made, [7, 4]))
    seen = []
    model.layers[0].register_forward_pre_hook(lambda module, given: seen.append(given))
    model(batch)
    x, pairs, degrees, blocks = seen[0][:4]
    adjacency = blocks.adjacency(torch.float64)
    assert [a.shape for a in adjacency] == [(1, 4, 4), (1, 7, 7)]
    assert torch.equal(degrees, torch.cat([a.sum(2).flatten() for a in adjacency]))
    walk = adjacency[1][0] / adjacency[1][0].sum(1, keepdim=True).clamp(min=1)
    powers = [torch.linalg.matrix_power(walk, k) for k in range(made.steps)]
    expected = model.pair_walks(torch.stack(powers, -1))
    inputs = model.encode(batch)
    for column, (source, target) in enumerate(batch.edge_index.T.tolist()):
        if target < 7:
            expected[target, source] += inputs.edges[column]
    torch.testing.assert_close(blocks.pairs(pairs)[1][0], expected)
    loops = torch.stack([power.diagonal() for power in powers], -1)
    torch.testing.assert_close(x[4:], inputs.x[:7] + model.node_walks(loops))
