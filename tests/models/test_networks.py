"""All networks beside the Eigenformer: the same inputs, the same symmetries, the same errors."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch_geometric.data import Batch, Data

from eigenformer.config import (
    ConfigError,
    EmbeddingSpec,
    LaplacianSpec,
    ModelConfig,
    OnesSpec,
    RandomWalkSpec,
    load_preset,
    networks,
)
from eigenformer.config.settings import kinds_of
from eigenformer.data import GraphArchive
from eigenformer.data.encodings import with_encoding_in_memory
from eigenformer.models import Model, build_model, comparable
from eigenformer.models.sizes import count_parameters
from eigenformer.testing import batch_error, permute
from tests.graphs import EDGE_TYPES, NODE_TYPES, random_batch

PEERS = [name for name in networks() if name != "eigenformer"]
ENCODINGS = {"rwse": RandomWalkSpec(steps=5, width=4), "lappe": LaplacianSpec(vectors=3, width=4)}
# One for each way in which a network can be put together.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in PEERS),
    ("gine", {"encoding": ENCODINGS["rwse"]}),
    ("gatedgcn", {"encoding": ENCODINGS["lappe"], "head_layers": 3}),
    ("gps", {"local": "gatedgcn", "encoding": ENCODINGS["rwse"]}),
    ("graphormer", {"resistance": True, "urpe": True}),
    ("graphormer", {"edge_encoder": None}),
]
IDS = [f"{name}-{'-'.join(map(str, changes))}".rstrip("-") for name, changes in VARIANTS]
every_network = pytest.mark.parametrize(("kind", "changes"), VARIANTS, ids=IDS)


def config(kind: str, **changes: Any) -> ModelConfig:
    settings = {
        "node_encoder": EmbeddingSpec(NODE_TYPES, width=8),
        "edge_encoder": EmbeddingSpec(EDGE_TYPES, width=8, no_edge_type=0),
        "layers": 2,
        "hidden_dim": 16,
        "kind": kind,
    }
    if kind in ("transformer", "san"):
        settings["encoding"] = ENCODINGS["lappe"]
    return kinds_of(get_args(ModelConfig))[kind](**{**settings, **changes})  # type: ignore[return-value]


def graphs_for(config: ModelConfig, sizes: list[int]) -> list[Data]:
    """Random graphs with nothing but what the network needs."""
    graphs = random_batch(sizes, torch.float64).to_data_list()
    needs, names = config.needs, ("x", "edge_index", "edge_attr")
    given = [Data(**{name: graph[name] for name in names}) for graph in graphs]
    if needs.encoding is not None:
        archive = GraphArchive.from_data_list(given)
        given = with_encoding_in_memory(archive, needs.encoding).to_data_list()
    if needs.spectrum:
        for data, graph in zip(given, graphs, strict=True):
            data.eigenvalues, data.eigenvectors = graph.eigenvalues, graph.eigenvectors
    return given


@every_network
@pytest.mark.parametrize(("pooling", "rows"), [("sum", 4), ("none", 22)])
def test_predicts_for_graphs_and_nodes(kind, changes, pooling, rows) -> None:
    made = config(kind, **changes, pooling=pooling, out_channels=2, dropout=0.1)
    model = build_model(made)
    batch = Batch.from_data_list(graphs_for(made, [5, 7, 9, 1]))
    before = batch.clone()
    out = model(batch)
    assert out.shape == (rows, 2)
    out.sum().backward()
    # The last layer's states of edges and pairs are never looked at.
    unused = [name for name, p in model.named_parameters() if p.grad is None]
    assert all(
        name.startswith("layers.1.") and ("pair_" in name or "edge_norm" in name) for name in unused
    )
    assert batch.keys() == before.keys()
    for name in ("x", "edge_index"):
        assert torch.equal(batch[name], before[name])
    assert model.double().eval()(batch).dtype == torch.float64
    assert type(build_model(made.tiny()).eval()(batch)) is torch.Tensor


@every_network
def test_representations_are_what_the_head_sees(kind, changes) -> None:
    made = config(kind, **changes, pooling="mean")
    model = build_model(made).eval()
    batch = Batch.from_data_list(graphs_for(made, [5, 7, 9, 1]))
    with torch.no_grad():
        graphs, nodes = model.embed(batch)
        assert graphs is not None
        assert nodes.shape == (22, 16)
        torch.testing.assert_close(graphs[1], nodes[5:12].mean(0))
        torch.testing.assert_close(model.head(graphs), model(batch))


@every_network
def test_graphs_of_a_batch_do_not_see_each_other(kind, changes) -> None:
    made = config(kind, **changes)
    model = build_model(made).double().eval()
    graphs = graphs_for(made, [5, 7, 9, 7])
    assert batch_error(model, graphs) < 1e-10
    assert model(graphs[0]).shape == (1, 1)  # a Data is a batch of one


@every_network
@pytest.mark.parametrize("pooling", ["mean", "none"])
def test_the_order_of_nodes_does_not_matter(kind, changes, pooling) -> None:
    """For LapPE, the eigenvectors are permuted with the nodes.

    Computed again, they may have other signs, and within an eigenspace another basis. Networks with
    LapPE are not invariant to these.
    """
    made = config(kind, **changes, pooling=pooling)
    if kind == "exphormer":
        pytest.skip("its expander is a function of the order of nodes")
    model = build_model(made).double().eval()
    (data,) = graphs_for(made, [11])
    if "eigenvalues" not in data:  # permute() computes spectra again
        data.eigenvalues, data.eigenvectors = torch.ones(11).double(), torch.ones(121).double()
    order = torch.randperm(11)
    expected = model(data)
    found = model(permute(data, order))
    if pooling == "none":
        expected = expected[order]
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@every_network
def test_overfits_32_graphs(kind, changes) -> None:
    torch.manual_seed(1)
    made = config(kind, **{**changes, "pooling": "sum", "hidden_dim": 32, "layers": 2})
    model = build_model(made)
    batch = Batch.from_data_list(graphs_for(made, torch.randint(5, 9, (32,)).tolist()))
    targets = torch.randn(32, 1)
    steps = 500
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(batch) - targets).abs().mean()
        if loss < 0.1:  # predicting the median gives about 0.8
            return
        loss.backward()
        optimizer.step()
        schedule.step()
    pytest.fail(f"the loss is still {loss:.3f}")


@pytest.mark.parametrize("kind", PEERS)
def test_edge_features_matter_where_a_network_takes_them(kind) -> None:
    made = config(kind)
    model = build_model(made).eval()
    batch = Batch.from_data_list(graphs_for(made, [8]))
    other = batch.clone()
    other.edge_attr = torch.full_like(other.edge_attr, 1)
    sees = kind not in ("gcn", "gin", "transformer")
    assert torch.equal(model(batch), model(other)) != sees
    assert (model.edge_encoder is not None) == sees


@pytest.mark.parametrize("kind", PEERS)
def test_without_any_features_and_without_edges(kind) -> None:
    made = config(kind, node_encoder=OnesSpec(), edge_encoder=None, encoding=None)
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    for edge_index in (edges, edges[:, :0]):
        model = build_model(made)
        out = model(Data(edge_index=edge_index, num_nodes=4))
        assert out.shape == (1, 1)
        assert out.isfinite().all()


@pytest.mark.parametrize("kind", PEERS)
def test_errors_are_those_of_every_model(kind) -> None:
    made = config(kind)
    model, batch = build_model(made), Batch.from_data_list(graphs_for(made, [4, 5]))
    for attribute, value, message in (
        ("x", torch.full((9, 1), 99), "graph 0 of the batch: x: type 99 in column 0"),
        ("x", None, "graph 0 of the batch: 'x' is missing"),
        ("edge_index", batch.edge_index + 99, "refers to a node that does not exist"),
    ):
        changed = batch.clone()
        changed[attribute] = value
        with pytest.raises(ValueError, match=message):
            model(changed)
    with pytest.raises(TypeError, match="expected a PyG Data or Batch"):
        model({})


def test_impossible_settings() -> None:
    for kind, changes, message in (
        ("gin", {"heads": 2}, "heads: only for 'gat', but kind is 'gin'"),
        ("gine", {"typical_degree": 5}, "typical_degree: only for 'pna'"),
        ("gps", {"hidden_dim": 18}, "hidden_dim: 18 is not a multiple of heads, 4"),
        ("gps", {"local": "gat"}, "local: 'gat': unknown; the nearest is 'gatedgcn'"),
        ("gine", {"encoding": RandomWalkSpec(width=16)}, "encoding.width: 16 leaves no room"),
        ("exphormer", {"expander_degree": 3}, "expander_degree: must be even, got 3"),
        ("graphormer", {"path_length": 30}, "path_length: 30 is longer than max_distance, 20"),
    ):
        with pytest.raises(ConfigError, match=message):
            config(kind, **changes)


@pytest.mark.parametrize("kind", PEERS)
def test_a_comparable_network_is_of_the_same_size(kind) -> None:
    like = load_preset("pattern").model.replace(layers=4)
    found = comparable(kind, like)
    wider = found.replace(hidden_dim=found.hidden_dim + getattr(found, "heads", 1))
    assert count_parameters(found) <= count_parameters(like) < count_parameters(wider)
    assert found.kind == kind


@pytest.mark.parametrize("kind", PEERS)
def test_a_saved_network_is_loaded_as_what_it_is(kind, tmp_path) -> None:
    made = config(kind)
    model = build_model(made).eval()
    model.save(tmp_path)
    loaded = Model.load(tmp_path)
    assert loaded.config == made
    batch = Batch.from_data_list(graphs_for(made, [5, 6]))
    assert torch.equal(loaded(batch), model(batch))
    parts = [id(p) for parameters in model.parts().values() for p in parameters]
    assert sorted(parts) == sorted(id(p) for p in model.parameters())


@every_network
def test_embeddings_are_as_wide_as_the_layers(kind, changes):
    made = config(kind, **changes)
    model = build_model(made).eval()
    batch = Batch.from_data_list(graphs_for(made, [5, 6]))
    found = model.embed(batch)
    assert found.graphs.shape == (2, made.hidden_dim)
    assert found.nodes.shape == (11, made.hidden_dim)
    assert torch.equal(model.decode(found, batch), model(batch))
