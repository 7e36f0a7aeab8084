"""Drop path: whole branches of whole graphs, in training only."""

from __future__ import annotations

import pytest
import torch

from eigenformer import Eigenformer, EigenformerLayer
from eigenformer.drop_path import DropPath, growing_rates
from eigenformer.ragged import RaggedGraphs
from tests.graphs import random_batch, small_config


def test_all_nodes_of_a_graph_share_a_factor_whose_mean_is_one():
    torch.manual_seed(0)
    sizes = [1, 3, 2] * 700
    batch = random_batch([1, 3, 2], torch.float64)
    graphs = RaggedGraphs.from_data(type(batch).from_data_list(batch.to_data_list() * 700))
    factors = DropPath(0.2)(torch.zeros(sum(sizes), 4, dtype=torch.float64), graphs)
    assert factors.shape == (sum(sizes), 1)
    assert set(factors.flatten().tolist()) == {0.0, 1 / 0.8}
    for part in factors.split(sizes):
        assert (part == part[0]).all()
    firsts = torch.stack([part[0] for part in factors.split(sizes)])
    assert firsts.mean().item() == pytest.approx(1, abs=0.04)


def test_rates_grow_with_depth():
    assert growing_rates(0.3, 4) == pytest.approx([0, 0.1, 0.2, 0.3])
    assert growing_rates(0.3, 1) == [0.3]
    model = Eigenformer(small_config(layers=3, drop_path=0.4))
    assert [layer.drop_path.rate for layer in model.layers] == pytest.approx([0, 0.2, 0.4])


@pytest.mark.parametrize("local_branch", [None, "gine", "gated"])
@pytest.mark.parametrize("degree_scaler", [True, False])
def test_a_graph_without_branches_is_only_normalised(monkeypatch, local_branch, degree_scaler):
    batch = random_batch([4, 6], torch.float64)
    options = {"local_branch": local_branch, "degree_scaler": degree_scaler, "norm": torch_identity}
    layer = EigenformerLayer(8, heads=2, drop_path=0.5, **options).double()
    # The first graph loses its attention, the second its feed-forward network.
    drawn = iter([torch.tensor([[0.1], [0.9]]), torch.tensor([[0.9], [0.1]])])
    monkeypatch.setattr(torch, "rand", lambda *shape, **options: next(drawn))
    x = torch.randn(10, 8, dtype=torch.float64)
    found = layer(x, batch)
    whole = EigenformerLayer(8, heads=2, **options).double()
    whole.load_state_dict(layer.state_dict())
    hidden = {}
    whole.ffn.register_forward_pre_hook(lambda module, given: hidden.update(x=given[0]))
    whole(x, batch)
    branch = hidden["x"] - x
    torch.testing.assert_close(found[:4], x[:4] + 2 * layer.ffn(x[:4]))
    torch.testing.assert_close(found[4:], x[4:] + 2 * branch[4:])


def test_evaluation_keeps_every_branch():
    torch.manual_seed(0)
    batch = random_batch([4, 6, 5])
    model = Eigenformer(small_config(drop_path=0.9)).eval()
    plain = Eigenformer(small_config()).eval()
    plain.load_state_dict(model.state_dict())  # it has no weights of its own
    assert torch.equal(model(batch), plain(batch))
    model.train()
    assert not torch.equal(model(batch), model(batch))


def torch_identity(channels: int) -> torch.nn.Module:
    return torch.nn.Identity()
