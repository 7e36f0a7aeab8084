"""PyG's networks as models: they take what an Eigenformer takes, without spectra."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data

from eigenformer.config import (
    ConfigError,
    EmbeddingSpec,
    MessagePassingConfig,
    OnesSpec,
    load_preset,
)
from eigenformer.models import MessagePassing, build_model, comparable
from eigenformer.testing import batch_error
from tests.graphs import EDGE_TYPES, NODE_TYPES, random_batch

CONVOLUTIONS = ("gcn", "gin", "gine", "gated", "gps")


def config(convolution: str = "gine", **changes: object) -> MessagePassingConfig:
    settings = {
        "node_encoder": EmbeddingSpec(NODE_TYPES, width=8),
        "edge_encoder": EmbeddingSpec(EDGE_TYPES, width=8, no_edge_type=0),
        "layers": 2,
        "hidden_dim": 16,
        "convolution": convolution,
    }
    return MessagePassingConfig(**{**settings, **changes})  # type: ignore[arg-type]


def plain(sizes: list[int]) -> Batch:
    """Graphs without spectra."""
    graphs = random_batch(sizes).to_data_list()
    return Batch.from_data_list(
        [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in graphs]
    )


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
@pytest.mark.parametrize(("pooling", "rows"), [("sum", 3), ("mean", 3), ("none", 21)])
def test_predicts_without_spectra(convolution: str, pooling: str, rows: int) -> None:
    model = build_model(config(convolution, pooling=pooling, out_channels=2, dropout=0.1))
    batch = plain([5, 7, 9])
    assert isinstance(model, MessagePassing)
    assert not model.needs_spectrum
    out = model(batch)
    assert out.shape == (rows, 2)
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert model.double().eval()(batch).dtype == torch.float64


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_graphs_of_a_batch_do_not_see_each_other(convolution: str) -> None:
    model = build_model(config(convolution)).double().eval()
    graphs = plain([5, 7, 9]).to_data_list()
    assert batch_error(model, graphs) < 1e-10
    assert model(graphs[0]).shape == (1, 1)  # a Data is a batch of one


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_without_any_features(convolution: str) -> None:
    model = build_model(config(convolution, node_encoder=OnesSpec(), edge_encoder=None)).eval()
    batch = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=4)
    assert model(batch).shape == (1, 1)


@pytest.mark.parametrize("convolution", ["gcn", "gin"])
def test_messages_come_along_the_edges(convolution: str) -> None:
    """The sparse product against PyG's own message passing, edge by edge."""
    model = build_model(config(convolution, pooling="none")).eval()
    batch = plain([6, 8])
    edge_index = batch.edge_index.unique(dim=1)
    batch.edge_index = edge_index[:, edge_index[0] != edge_index[1]][:, ::2]
    x = model.layers.network(model.node_encoder(batch.x), batch.edge_index)
    torch.testing.assert_close(model(batch), model.head(x), rtol=1e-4, atol=1e-5)


def test_edge_features_matter_where_a_convolution_takes_them() -> None:
    batch = plain([8])
    other = batch.clone()
    other.edge_attr = torch.full_like(other.edge_attr, 1)
    for convolution in CONVOLUTIONS:
        model = build_model(config(convolution)).eval()
        sees = convolution not in ("gcn", "gin")
        assert torch.equal(model(batch), model(other)) != sees
        assert (model.edge_encoder is not None) == sees


def test_errors_are_those_of_every_model() -> None:
    model, batch = build_model(config()), plain([4, 5])
    for attribute, value, message in (
        ("x", torch.full((9, 1), 99), "graph 0 of the batch: x: type 99 in column 0"),
        ("x", None, "graph 0 of the batch: 'x' is missing"),
        ("edge_attr", batch.edge_attr[1:], "edge_attr: .* rows in the batch"),
        ("edge_index", batch.edge_index + 99, "refers to a node that does not exist"),
    ):
        changed = batch.clone()
        changed[attribute] = value
        with pytest.raises(ValueError, match=message):
            model(changed)
    with pytest.raises(ValueError, match="too small for batch norm"):
        model(Data(x=torch.zeros(1, 1, dtype=torch.long), edge_index=torch.empty(2, 0).long()))
    with pytest.raises(TypeError, match="expected a PyG Data or Batch"):
        model({})


def test_impossible_settings() -> None:
    with pytest.raises(ConfigError, match="'gin' has no attention"):
        config("gin", heads=2)
    with pytest.raises(ConfigError, match="hidden_dim: 18 is not a multiple of heads, 4"):
        config("gps", hidden_dim=18)
    with pytest.raises(ConfigError, match="convolution: 'gat': unknown; the nearest is 'gated'"):
        config("gat")


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_a_comparable_network_is_of_the_same_size(convolution: str) -> None:
    like = load_preset("pattern").model.replace(layers=4)
    found = comparable(convolution, like)
    size = build_model(found).num_parameters()
    if convolution == "gps":
        assert (found.layers, found.hidden_dim) == (10, 64)
    else:
        limit = build_model(like).num_parameters()
        wider = build_model(found.replace(hidden_dim=found.hidden_dim + 1)).num_parameters()
        assert size <= limit < wider


@pytest.mark.parametrize("convolution", CONVOLUTIONS)
def test_the_tiny_one_takes_the_same_graphs(convolution: str) -> None:
    model = build_model(config(convolution, layers=5).tiny())
    assert model.num_parameters() < 600
    assert model.eval()(plain([3, 4])).shape == (2, 1)


def test_parts_hold_every_parameter_once() -> None:
    model = build_model(config())
    parts = model.parts()
    assert {"node encoder", "edge encoder", "head"} < set(parts)
    found = [id(p) for parameters in parts.values() for p in parameters]
    assert sorted(found) == sorted(id(p) for p in model.parameters())
