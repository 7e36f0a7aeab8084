"""GPS against PyG's own layer."""

from __future__ import annotations

import torch
from torch_geometric.data import Batch
from torch_geometric.nn import GPSConv

from eigenformer.models import build_model
from eigenformer.models.gps import GPSLayer
from eigenformer.models.message_passing import gine
from tests.models.test_networks import config, graphs_for


def pygs(layer: GPSLayer, width: int, heads: int) -> GPSConv:
    """PyG's layer with the weights of ours."""
    theirs = GPSConv(width, gine(width), heads, act="relu")
    theirs.conv.load_state_dict(layer.local.state_dict())
    theirs.attn.in_proj_weight.data = layer.attention.in_proj.weight.data
    theirs.attn.in_proj_bias.data = layer.attention.in_proj.bias.data
    theirs.attn.out_proj.load_state_dict(layer.attention.out_proj.state_dict())
    theirs.mlp[0].load_state_dict(layer.feed_forward[0].state_dict())
    theirs.mlp[3].load_state_dict(layer.feed_forward[3].state_dict())
    for norm, ours in zip(
        (theirs.norm1, theirs.norm2, theirs.norm3),
        (layer.local_norm, layer.attention_norm, layer.out_norm),
        strict=True,
    ):
        norm.module.load_state_dict(ours.state_dict())
    return theirs


def test_a_network_with_gine_is_pygs() -> None:
    made = config("gps", pooling="none")
    model = build_model(made).double()
    layers = [pygs(layer, 16, 4).double() for layer in model.layers]
    batch = Batch.from_data_list(graphs_for(made, [5, 7, 9, 7, 2]))
    inputs = model.encode(batch)
    x = inputs.x
    for layer in layers:
        x = layer(x, batch.edge_index, batch.batch, edge_attr=inputs.edges)
    torch.testing.assert_close(model(batch), model.head(x))
    weights = [p for layer in layers for p in layer.parameters()]
    assert sum(p.numel() for p in weights) == sum(p.numel() for p in model.layers.parameters())
