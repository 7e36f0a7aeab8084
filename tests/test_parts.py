"""Parts of the layer: by name, or injected; and what they say about themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphNorm

from eigenformer import Eigenformer, EigenformerLayer
from eigenformer.analysis.architecture import architecture_of
from eigenformer.options import FEED_FORWARDS, LOCAL_BRANCHES, NORMS
from eigenformer.parts import (
    describe,
    make_feed_forward,
    make_head,
    make_local_branch,
    make_norm,
)
from tests.graphs import random_batch, small_config


class Gated(nn.Module):
    """A feed-forward network whose output is kept for its way back."""

    def __init__(self, channels: int, width: int, dropout: float) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(channels, width), nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x)).tanh()

    def describe(self) -> tuple[str, ...]:
        return "gated", f"width {self.up.out_features}"


class Neighbours(nn.Module):
    """A local branch that sums neighbours."""

    def __init__(self, channels: int, edge_features: bool, dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor, kernel, edges) -> Tensor:
        source, target = kernel.graphs.edge_index
        return torch.zeros_like(x).index_add(0, target, x[source]) * self.weight


@pytest.mark.parametrize("norm", NORMS)
def test_every_norm_trains(norm, dtype):
    model = Eigenformer(small_config(norm=norm)).to(dtype)
    batch = random_batch([5, 7], dtype)
    model(batch).sum().backward()
    layer = model.layers[0]
    assert all(p.grad is not None for p in layer.norms[0].parameters())
    model.eval()
    alone = torch.cat([model(data) for data in batch.to_data_list()])
    torch.testing.assert_close(model(batch), alone, rtol=1e-4, atol=1e-4)
    assert describe(layer.norms[0])
    if norm == "batch_norm":
        assert {"layers.0.norm1.running_mean", "layers.0.norm2.running_var"} < set(
            model.state_dict()
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_norm("batchnorm", 4), "norm: 'batchnorm': unknown; .* 'batch_norm'"),
        (lambda: make_feed_forward("mpl", 4, 4, 0.0), "feed_forward: 'mpl': unknown; .* 'mlp'"),
        (lambda: make_local_branch("gin", 4, True, 0.0), "local_branch: 'gin': .* 'gine'"),
        (lambda: EigenformerLayer(8, norm="graphnorm"), "norm: 'graphnorm': .* 'graph_norm'"),
    ],
)
def test_unknown_names_are_told_the_nearest(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_every_name_is_there():
    for name in FEED_FORWARDS:
        assert make_feed_forward(name, 4, 6, 0.0)(torch.randn(3, 4)).shape == (3, 4)
    for name in LOCAL_BRANCHES:
        assert describe(make_local_branch(name, 4, False, 0.0))


def test_injected_parts_are_used_and_listed(tmp_path):
    model = Eigenformer(
        small_config(pooling="none"),
        norm=GraphNorm,
        feed_forward=Gated,
        local_branch=Neighbours,
        head=lambda width, outputs: nn.Sequential(nn.Linear(width, outputs), nn.Tanh()),
    )
    layer = model.layers[0]
    assert isinstance(layer.norms[1], GraphNorm)
    out = model(random_batch([5, 6]))
    out.sum().backward()
    assert out.abs().max() <= 1
    assert all(p.grad is not None for part in (layer.ffn, layer.local) for p in part.parameters())
    parts = model.parts()
    assert [id(p) for p in parts["local branch"]] == [id(x.local.weight) for x in model.layers]
    found = [id(p) for parameters in parts.values() for p in parameters]
    assert sorted(found) == sorted(id(p) for p in model.parameters())
    assert model.output_bias is None
    drawn = architecture_of("mine", model)
    assert drawn.feed_forward == ("gated", "width 16")
    assert (drawn.norm, drawn.local_branch) == (("GraphNorm",), ("Neighbours",))
    message = "norm, feed_forward, local_branch, head: given as code"
    with pytest.raises(ValueError, match=message):
        model.save(tmp_path)
    layer.reset_parameters()


def test_a_submodule_with_a_new_name_is_a_part():
    model = Eigenformer(small_config())
    model.layers[0].gate = nn.Linear(3, 3)
    model.extra_bias = nn.Parameter(torch.zeros(1))
    parts = model.parts()
    assert len(parts["gate"]) == 2
    assert len(parts["extra bias"]) == 1
    assert list(parts)[-2:] == ["extra bias", "gate"]


def test_descriptions():
    assert describe(make_head(8, 3)) == ("linear 8 → 3",)
    assert describe(make_head(8, 3, 3)) == ("linear maps, ReLU", "8 → 4 → 2 → 3")
    assert describe(make_norm("batch_norm", 4, affine=True)) == ("batch norm", "scales and shifts")
    assert describe(make_norm("layer_norm", 4)) == ("LayerNorm",)
    assert describe(nn.Identity()) == ("Identity",)
    expected = ("feed-forward, ReLU", "4 → 6 → 4", "dropout 0.1")
    assert describe(make_feed_forward("mlp", 4, 6, 0.1)) == expected
