"""The local branch: PyG's GINE, beside attention."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GINEConv

from eigenformer import EigenformerLayer
from eigenformer.edges import Edges
from eigenformer.local_branch import LocalBranch
from tests.graphs import graph, kernel_of, random_batch


def test_is_pygs_gine_with_all_gradients(dtype):
    torch.manual_seed(0)
    batch = random_batch([5, 8, 3], dtype)
    kernel = kernel_of(batch)
    branch = LocalBranch(6, edge_features=True).to(dtype)
    conv = GINEConv(nn.Sequential(branch.hidden, nn.ReLU(), branch.out), edge_dim=6).to(dtype)
    conv.lin = branch.edge
    x = torch.randn(batch.num_nodes, 6, dtype=dtype, requires_grad=True)
    e = torch.randn(batch.num_edges, 6, dtype=dtype, requires_grad=True)
    found = []
    for out in (branch(x, kernel, Edges(e)), conv(x, batch.edge_index, e)):
        gradients = torch.autograd.grad(out.square().sum(), [x, e, *branch.parameters()])
        found.append([out, *gradients])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_rows_that_edges_share_change_nothing(dtype):
    torch.manual_seed(0)
    batch = random_batch([6, 7], dtype)
    kernel, edges = kernel_of(batch), batch.num_edges
    branch = LocalBranch(4, edge_features=True).to(dtype)
    x, none = torch.randn(13, 4, dtype=dtype), torch.randn(4, dtype=dtype)
    kinds, kind = torch.randn(3, 4, dtype=dtype), torch.randint(3, (edges,))
    factors, coefficients = torch.randn(2, 4, dtype=dtype), torch.randn(edges, 2, dtype=dtype)
    for shared, rows in (
        (Edges(kinds, none, kinds=kind), kinds[kind]),
        (Edges(factors, none, coefficients=coefficients), none + coefficients @ factors),
        (Edges(factors, coefficients=coefficients), coefficients @ factors),
    ):
        expected = branch(x, kernel, Edges(rows))
        torch.testing.assert_close(branch(x, kernel, shared), expected)


def test_parallel_edges_count_once_with_the_sum_of_their_features():
    data, branch = graph(3, [(0, 1), (0, 1), (1, 2)]), LocalBranch(4, edge_features=True)
    x, e = torch.randn(3, 4), torch.randn(3, 4)
    once = branch(
        x,
        kernel_of(graph(3, [(0, 1), (1, 2)])),
        Edges(torch.stack([e[0] + e[1], e[2]])),
    )
    torch.testing.assert_close(
        branch(x, kernel_of(data), Edges.of(e, kernel_of(data).graphs)), once
    )


def test_without_edge_features_or_edges():
    branch = LocalBranch(4)
    x = torch.randn(3, 4)
    kernel = kernel_of(graph(3, []))
    expected = branch.out(branch.hidden(x).relu())
    torch.testing.assert_close(branch(x, kernel), expected)


@pytest.mark.parametrize("degree_scaler", [True, False])
def test_the_layer_adds_it_before_the_first_norm(degree_scaler):
    batch = random_batch([5, 6])
    layer = EigenformerLayer(
        8,
        heads=2,
        phi_width=4,
        local_branch="gine",
        edge_features=True,
        degree_scaler=degree_scaler,
    )
    x, e = torch.randn(11, 8), torch.randn(batch.num_edges, 8)
    inputs = []
    layer.norm1.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    layer(x, batch, e)
    local = layer.local(x, kernel_of(batch), Edges(e))
    torch.testing.assert_close(inputs[0], x + layer.attention(x, batch, e) + local)


def test_dropout_acts_only_in_training():
    data, branch, x = graph(3, [(0, 1)]), LocalBranch(4, dropout=0.5), torch.randn(3, 4)
    kernel = kernel_of(data)
    torch.manual_seed(0)
    assert not torch.equal(branch(x, kernel), branch(x, kernel))
    branch.eval()
    assert torch.equal(branch(x, kernel), branch(x, kernel))
