"""The gated branch: a loop over edges, beside attention."""

from __future__ import annotations

import torch

from eigenformer import EigenformerLayer
from eigenformer.edges import Edges
from eigenformer.gated_branch import GatedBranch
from tests.graphs import graph, kernel_of, random_batch


def _literally(branch, x, edge_index, e):
    """The equation, edge by edge."""
    rows = []
    for i in range(len(x)):
        above, below = torch.zeros(x.size(1), dtype=x.dtype), 1e-6
        for k, (j, to) in enumerate(edge_index.t().tolist()):
            if to == i:
                gate = branch.target(x[i]) + branch.source(x[j])
                gate = torch.sigmoid(gate if e is None else gate + branch.edge(e[k]))
                above, below = above + gate * branch.value(x[j]), below + gate
        rows.append(above / below)
    return torch.stack(rows)


def test_is_the_equation_with_all_gradients(dtype):
    torch.manual_seed(0)
    batch = random_batch([5, 8, 3], dtype)
    kernel = kernel_of(batch)
    branch = GatedBranch(6, edge_features=True).to(dtype)
    x = torch.randn(batch.num_nodes, 6, dtype=dtype, requires_grad=True)
    e = torch.randn(batch.num_edges, 6, dtype=dtype, requires_grad=True)
    found = []
    for out in (branch(x, kernel, Edges(e)), _literally(branch, x, batch.edge_index, e)):
        gradients = torch.autograd.grad(out.square().sum(), [x, e, *branch.parameters()])
        found.append([out, *gradients])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_directed_and_parallel_edges():
    branch, x, e = GatedBranch(4, edge_features=True), torch.randn(3, 4), torch.randn(3, 4)
    data = graph(3, [(0, 1), (0, 1), (1, 2)])
    kernel = kernel_of(data)
    edge_index, summed = torch.tensor([[0, 1], [1, 2]]), torch.stack([e[0] + e[1], e[2]])
    torch.testing.assert_close(
        branch(x, kernel, Edges.of(e, kernel.graphs)), _literally(branch, x, edge_index, summed)
    )


def test_a_node_without_neighbours_receives_nothing():
    branch, x = GatedBranch(4), torch.randn(3, 4)
    received = branch(x, kernel_of(graph(3, [(0, 1), (1, 0)])))
    torch.testing.assert_close(
        received, _literally(branch, x, torch.tensor([[0, 1], [1, 0]]), None)
    )
    assert not received[2].any()


def test_the_layer_adds_it_before_the_first_norm():
    batch = random_batch([5, 6])
    layer = EigenformerLayer(8, heads=2, phi_width=4, local_branch="gated", edge_features=True)
    x, e = torch.randn(11, 8), torch.randn(batch.num_edges, 8)
    inputs = []
    layer.norm1.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    scaled = layer.attention(x, batch, e) * layer.degree_scaler.scale(
        kernel_of(batch).graphs.degrees
    )
    layer(x, batch, e)
    messages = layer.local(x, kernel_of(batch), Edges(e))
    torch.testing.assert_close(inputs[0], x + scaled + messages)


def test_dropout_acts_only_in_training():
    branch, x = GatedBranch(4, dropout=0.5), torch.randn(3, 4)
    kernel = kernel_of(graph(3, [(0, 1)]))
    torch.manual_seed(0)
    assert not torch.equal(branch(x, kernel), branch(x, kernel))
    branch.eval()
    assert torch.equal(branch(x, kernel), branch(x, kernel))
