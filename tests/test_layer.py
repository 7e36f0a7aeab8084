from __future__ import annotations

import pytest
import torch

from eigenformer import EigenformerLayer
from eigenformer.layer import DegreeScaler
from tests.graphs import graph, random_batch


def test_degree_scaler_follows_its_equation():
    scaler = DegreeScaler(4).double()
    x, degrees = torch.randn(3, 4).double(), torch.tensor([0, 1, 5])
    assert torch.equal(scaler(x, degrees), x)  # starts as the identity
    torch.nn.init.normal_(scaler.theta1)
    torch.nn.init.normal_(scaler.theta2)
    expected = x * scaler.theta1 + torch.log(1 + degrees)[:, None] * x * scaler.theta2
    assert torch.allclose(scaler(x, degrees), expected)


def test_layer_follows_its_equations(dtype):
    batch = random_batch([4, 7], dtype)
    layer = EigenformerLayer(8, heads=2, phi_width=4, edge_features=True).to(dtype)
    torch.nn.init.normal_(layer.degree_scaler.theta2)
    x = torch.randn(11, 8, dtype=dtype)
    e = torch.randn(batch.num_edges, 8, dtype=dtype)

    def norm(x):
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()

    degrees = torch.zeros(11, dtype=torch.long)
    for i, neighbours in enumerate(_neighbours(batch)):
        degrees[i] = len(neighbours)
    hidden = norm(x + layer.degree_scaler(layer.attention(x, batch, e), degrees))
    expected = norm(hidden + layer.ffn(hidden))
    assert torch.allclose(layer(x, batch, e), expected, atol=1e-5)


def _neighbours(batch):
    neighbours = [set() for _ in range(batch.num_nodes)]
    for u, v in batch.edge_index.T.tolist():
        if u != v:
            neighbours[u].add(v)
            neighbours[v].add(u)
    return neighbours


def test_options():
    shapes = {
        name: tuple(p.shape)
        for name, p in EigenformerLayer(
            8, heads=2, ffn_width=24, norm_affine=True, degree_scaler=False
        ).named_parameters()
    }
    assert shapes["ffn.0.weight"] == (24, 8)
    assert shapes["norm1.weight"] == (8,)
    assert not any("theta" in name for name in shapes)


def test_reset_parameters_starts_again():
    layer = EigenformerLayer(8, heads=2, feature_attention=True, edge_features=True)
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    layer(torch.randn(3, 8), graph(3, [(0, 1)]), torch.randn(1, 8))
    layer.reset_parameters()
    after = layer.state_dict()
    assert torch.equal(after["norm1.running_mean"], torch.zeros(8))
    for name, p in layer.named_parameters():
        if "theta" not in name:
            assert not torch.equal(before[name], p), name


def test_one_node_is_too_few_to_train_on():
    layer, data = EigenformerLayer(8, heads=2), graph(1, [])
    with pytest.raises(ValueError, match="one node is too small for batch norm"):
        layer(torch.randn(1, 8), data)
    layer.norm1.eval()
    layer.norm2.eval()
    assert layer(torch.randn(1, 8), data).shape == (1, 8)


def test_dropout_acts_only_in_training():
    layer = EigenformerLayer(8, heads=2, dropout=0.5)
    data, x = graph(5, [(0, 1)]), torch.randn(5, 8)
    assert not torch.equal(layer(x, data), layer(x, data))
    layer.eval()
    assert torch.equal(layer(x, data), layer(x, data))
