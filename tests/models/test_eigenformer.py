from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from eigenformer import Eigenformer, LaplacianSpectrum, load_preset
from eigenformer.config import CategoricalSpec, LinearSpec, OnesSpec
from eigenformer.frequencies import sample_frequencies
from tests.graphs import EIGENFORMERS, graph, named_graphs, random_batch, random_graph, small_config

# The parameter counts of the specification; all but two are printed in the paper.
COUNTS = {
    "zinc": 509849,
    "zinc-feat": 497481,
    "mnist": 106746,
    "mnist-feat": 110234,
    "cifar10": 106874,
    "cifar10-feat": 110346,
    "pattern": 476929,
    "pattern-feat": 472321,
    "cluster": 486006,
    "cluster-feat": 479734,
    "peptides-func": 510570,
    "peptides-func-feat": 478714,
    "peptides-struct": 510651,
    "peptides-struct-feat": 478779,
}


@pytest.mark.parametrize("preset", COUNTS)
def test_parameter_counts(preset):
    assert Eigenformer.from_preset(preset).num_parameters() == COUNTS[preset]
    paper = load_preset(preset).paper
    misprinted = preset in ("zinc-feat", "peptides-func-feat")
    assert (paper.parameters == COUNTS[preset]) != misprinted
    presets = map(load_preset, EIGENFORMERS)
    assert set(COUNTS) == {p.name for p in presets if p.dataset and not p.variant_of}


def test_the_preset_of_another_network_is_named() -> None:
    with pytest.raises(ValueError, match="preset 'zinc-grit': not an Eigenformer but a grit"):
        Eigenformer.from_preset("zinc-grit")


def features(preset: str, data: Data) -> Data:
    """The features a preset's dataset would carry, on another graph."""
    model, data = load_preset(preset).model, data.clone()
    for attribute, encoder, rows in (
        ("x", model.node_encoder, data.num_nodes),
        ("edge_attr", model.edge_encoder, data.num_edges),
    ):
        if isinstance(encoder, LinearSpec):
            data[attribute] = torch.randn(rows, encoder.in_channels)
        if isinstance(encoder, CategoricalSpec):
            data[attribute] = torch.stack([torch.randint(n, (rows,)) for n in encoder.sizes], 1)
    return data


def learned(model: Eigenformer) -> dict[str, torch.nn.Parameter]:
    """The parameters with a gradient: all but the bias of W_R, which cancels in the softmax."""
    return {k: p for k, p in model.named_parameters() if not k.endswith("edge_logit_bias")}


@pytest.mark.parametrize("preset", EIGENFORMERS)
def test_every_preset_predicts_and_learns(preset):
    graphs = [features(preset, random_graph(n)) for n in (6, 9, 11)]
    batch = next(iter(DataLoader(graphs, batch_size=3)))
    model = Eigenformer.from_preset(preset)
    out = model(batch)
    rows = batch.num_nodes if model.config.pooling == "none" else 3
    assert out.shape == (rows, model.config.out_channels)
    out.square().mean().backward()
    for name, p in learned(model).items():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


@pytest.mark.parametrize("feature_attention", [False, True])
def test_both_kernels_give_one_model(feature_attention, dtype):
    batch = Batch.from_data_list(list(named_graphs(dtype).values()))
    model = Eigenformer(small_config(feature_attention=feature_attention)).to(dtype)
    literal = Eigenformer(model.config, "literal").to(dtype)
    literal.load_state_dict(model.state_dict())
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    for mode in (True, False):
        a, b = model.train(mode)(batch), literal.train(mode)(batch)
        assert (a - b).abs().max() / b.abs().max() < tolerance


def test_the_batch_is_not_changed():
    batch = random_batch([5, 8])
    before = {key: value.clone() for key, value in batch.to_dict().items()}
    model = Eigenformer(small_config(frequency_fraction=0.5, attention_dropout=0.1))
    model(batch).sum().backward()
    model.eval()(batch, return_attention=True)
    model.embed(batch)
    assert set(batch.to_dict()) == set(before)
    for key, value in before.items():
        assert torch.equal(batch[key], value), key


def test_attention_of_every_layer_and_graph():
    graphs = [random_graph(n) for n in (9, 3, 5)]
    model = Eigenformer(small_config()).eval()
    batch = Batch.from_data_list(graphs)
    prediction, attention = model(batch, return_attention=True)
    # Only the torch kernels hand out the attention: the default may be another, exact to rounding.
    torch.testing.assert_close(prediction, model(batch), rtol=1e-4, atol=1e-5)
    assert [[a.shape for a in layer] for layer in attention] == [[(4, n, n) for n in (9, 3, 5)]] * 2
    # The graphs keep their order, though the kernel groups them by size.
    for g, data in enumerate(graphs):
        alone = model(data, return_attention=True)[1]
        for layer in range(2):
            assert torch.allclose(attention[layer][g], alone[layer][0], atol=1e-6)


@pytest.mark.parametrize("pooling", ["sum", "mean", "none"])
def test_embedding_is_what_the_head_sees(pooling):
    batch = random_batch([5, 8])
    model = Eigenformer(small_config(pooling=pooling, out_channels=3)).eval()
    embedding = model.embed(batch)
    assert embedding.nodes.shape == (13, 16)
    if pooling == "none":
        assert embedding.graphs is None
        assert torch.equal(model.head(embedding.nodes), model(batch))
        return
    assert torch.equal(model.head(embedding.graphs), model(batch))
    parts = embedding.nodes.split([5, 8])
    pooled = torch.stack([p.sum(0) if pooling == "sum" else p.mean(0) for p in parts])
    assert torch.allclose(embedding.graphs, pooled, atol=1e-6)


def test_options_change_the_parameters():
    def names(**changes):
        return {n: p.numel() for n, p in Eigenformer(small_config(**changes)).named_parameters()}

    assert names()["degree_scaler.theta1"] == 16
    assert "layers.1.degree_scaler.theta1" in names(degree_scaler="per_layer")
    assert not any("theta" in n for n in names(degree_scaler="none"))
    assert "input_norm.weight" in names()
    assert "input_norm.weight" not in names(input_norm=False)
    assert "layers.1.norm2.weight" not in names()
    assert "layers.1.norm2.weight" in names(norm_affine=True)
    shared = names(norm_affine=True, norm_shared=True)
    assert "layers.0.norm2.weight" in shared
    assert "layers.1.norm2.weight" not in shared
    assert names(ffn_width=40)["layers.0.ffn.0.weight"] == 640
    assert names(phi_depth=3)["layers.0.attention.phi1.weights.2"] == 4 * 6 * 6
    assert names(filters=8)["layers.1.filters.phi.weights.1"] == 8 * 12 * 12
    assert names(filters=8, filter_width=5)["layers.1.filters.phi.weights.1"] == 8 * 5 * 5


def test_the_gain_of_phi_reaches_every_layer():
    def largest(gain):
        torch.manual_seed(0)
        layers = Eigenformer(small_config(phi_gain=gain)).layers
        phis = [phi for layer in layers for phi in (layer.attention.phi1, layer.attention.phi2)]
        return torch.stack([phi.weights[1].abs().max() for phi in phis])

    torch.testing.assert_close(largest(2.5), 2.5 * largest(1.0))


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_in_training_a_batch_is_predicted_as_one_bias_on_average(pooling, dtype):
    """The last norm makes every channel's mean over all nodes 0; pooling and head keep that."""
    sizes = [5, 8, 3]
    model = Eigenformer(small_config(pooling=pooling, out_channels=2)).to(dtype)
    batch = random_batch(sizes)
    weights = torch.tensor(sizes if pooling == "mean" else [1, 1, 1]).to(dtype)[:, None]
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}[dtype]

    def mean_prediction():
        return (weights * model(batch)).sum(0) / weights.sum()

    torch.testing.assert_close(mean_prediction(), model.head.bias, atol=tolerance, rtol=0)
    model.eval()
    assert (mean_prediction() - model.head.bias).abs().min() > 1e-3
    model = Eigenformer(small_config(pooling=pooling, out_channels=2, last_norm=False)).to(dtype)
    assert (mean_prediction() - model.head.bias).abs().min() > 1e-3


def test_only_the_last_layer_may_end_without_a_norm():
    def statistics(**changes):
        names = Eigenformer(small_config(last_norm=False, **changes)).state_dict()
        return [name for name in names if name.endswith("running_mean") and "norm2" in name]

    assert statistics(layers=3) == [f"layers.{layer}.norm2.running_mean" for layer in (0, 1)]
    assert statistics(layers=1) == []
    model = Eigenformer(small_config(last_norm=False, norm="graph_norm"))
    assert model(random_batch([5, 8])).shape == (2, 1)


def test_shared_norms_leave_out_the_norm_that_the_last_layer_does_not_have():
    options = {"norm_affine": True, "norm_shared": True, "last_norm": False}
    model = Eigenformer(small_config(layers=3, **options))
    names = [name for name in model.state_dict() if name.endswith("norm2.weight")]
    assert names == ["layers.0.norm2.weight", "layers.1.norm2.weight"]
    assert model.layers[1].norm2.weight is model.layers[0].norm2.weight
    assert model.layers[2].norm1.weight is model.layers[0].norm1.weight
    Eigenformer(small_config(layers=1, **options))(random_batch([5, 8]))


def test_shared_norms_share_weights_but_not_statistics():
    model = Eigenformer(small_config(norm_affine=True, norm_shared=True))
    model(random_batch([5, 8])).sum().backward()
    first, second = model.layers[0].norm1, model.layers[1].norm1
    assert first.weight is second.weight
    assert not torch.equal(first.running_mean, second.running_mean)
    again = Eigenformer(model.config)
    again.load_state_dict(model.state_dict())


def test_embedding_style_peptides_encoders():
    data = graph(4, [(0, 1), (1, 2)])
    data.x, data.edge_attr = torch.zeros(4, 9).long(), torch.zeros(2, 3).long()
    config = load_preset("peptides-func").model.replace(
        layers=1, node_encoder=CategoricalSpec((119,) * 9), edge_encoder=CategoricalSpec((5, 6, 2))
    )
    model = Eigenformer(config).eval()
    plain = model(data)
    # A plain single bond, all zeros, is now different from no bond.
    data.edge_index, data.edge_attr = data.edge_index[:, :1], data.edge_attr[:1]
    assert not torch.allclose(model(data), plain)


def test_graphs_without_features():
    model = Eigenformer(small_config(node_encoder=OnesSpec(), edge_encoder=None)).eval()
    data = LaplacianSpectrum()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    assert model(data).shape == (1, 1)


@pytest.mark.parametrize("name", named_graphs())
def test_special_graphs_alone(name, dtype):
    data = named_graphs(dtype)[name]
    model = Eigenformer(small_config(feature_attention=True, dropout=0.1)).to(dtype)
    assert model.eval()(data).isfinite().all()
    if data.num_nodes > 1:
        loss = model.train()(data).sum()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in learned(model).values())


def test_a_graph_without_edges_in_the_batch(dtype):
    graphs = [random_graph(6, dtype), graph(3, [], dtype), random_graph(4, dtype)]
    model = Eigenformer(small_config(feature_attention=True)).to(dtype).eval()
    together = model(Batch.from_data_list(graphs))
    alone = torch.cat([model(g) for g in graphs])
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_missing_edge_attr_is_fine_without_edges():
    data = graph(3, [])
    del data.edge_attr
    assert Eigenformer(small_config()).eval()(data).shape == (1, 1)


def test_a_float64_spectrum_in_a_float32_model():
    batch = random_batch([5], torch.float64)
    assert Eigenformer(small_config())(batch).dtype == torch.float32


def test_frequencies_that_are_left_out_change_the_prediction(dtype):
    model = Eigenformer(small_config(frequency_fraction=0.3)).to(dtype).eval()
    batch = random_batch([12, 15], dtype)
    part = sample_frequencies(batch, 0.3, seeds=[1, 2])
    assert torch.equal(model(part), model(part))
    assert not torch.equal(model(part), model(batch))
    model.train()  # training itself draws nothing: that is up to who gives the batch
    torch.manual_seed(0)
    model(batch)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), after)


def two_graphs(**attributes: torch.Tensor) -> Batch:
    """A good graph 0, and a graph 1 with other attributes."""
    bad = graph(3, [(0, 1), (1, 2)])
    for name, value in attributes.items():
        setattr(bad, name, value)
    return Batch.from_data_list([graph(2, [(0, 1)]), bad])


def test_errors_name_the_graph_and_the_attribute():
    model = Eigenformer(small_config())
    linear = Eigenformer(small_config(node_encoder=LinearSpec(1), edge_encoder=LinearSpec(1)))
    nan = torch.tensor([[0.0], [torch.nan], [0.0]])
    floats = Batch.from_data_list(
        [features("pattern", g) for g in (graph(2, [(0, 1)]), graph(3, []))]
    )
    no_x = random_batch([3])
    del no_x.x
    no_edge_attr = random_batch([3])
    del no_edge_attr.edge_attr
    cases = [
        (model, two_graphs(x=torch.full((3, 1), 22)), "graph 1 .*: x: type 22 .* knows 0 to 21"),
        (model, two_graphs(edge_attr=torch.tensor([0, -1])), "graph 1 .*: edge_attr: type -1"),
        (model, floats, "x: torch.float32, the encoder expects integer types"),
        (linear, two_graphs(x=nan), "graph 1 .*: x: a NaN or infinite value"),
        (linear, floats, "x: 3 features, the encoder expects 1"),
        (model, no_x, "graph 0 .*: 'x' is missing"),
        (model, no_edge_attr, "graph 0 .*: 'edge_attr' is missing"),
        (model, graph(1, []), "graph 0 .* one node is too small for batch norm"),
    ]
    for m, batch, message in cases:
        with pytest.raises(ValueError, match=message):
            m(batch)
    batch = random_batch([3])
    batch.edge_attr = batch.edge_attr[:1]
    with pytest.raises(ValueError, match="edge_attr: 1 rows in the batch, expected"):
        model(batch)


@pytest.mark.parametrize("feature_attention", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype, feature_attention):
    batch = random_batch([5, 9])
    model = Eigenformer(small_config(feature_attention=feature_attention))
    expected = model(batch)
    with torch.autocast("cpu", dtype):
        mixed = model(batch)
    mixed.float().sum().backward()
    assert mixed.dtype == dtype
    assert (mixed - expected).abs().max() < 0.05 * expected.abs().max()
    assert all(p.grad.isfinite().all() for p in learned(model).values())
    assert model.to(dtype)(batch).dtype == dtype


def test_from_preset_takes_changes_and_checks_them():
    assert len(Eigenformer.from_preset("zinc", layers=2).layers) == 2
    with pytest.raises(ValueError, match="layer: unknown; the nearest is 'layers'"):
        Eigenformer.from_preset("zinc", layer=2)


def test_two_models_with_one_seed_are_equal():
    batch = random_batch([4, 6])
    outputs = []
    for _ in range(2):
        torch.manual_seed(7)
        model = Eigenformer(small_config(attention_dropout=0.3))
        outputs.append(model(batch))
    assert torch.equal(*outputs)


def test_it_overfits_a_handful_of_graphs():
    batch, target = (
        random_batch([6, 9, 12, 7, 8]),
        torch.tensor([1.0, -1.0, 0.5, 2.0, 0.0])[:, None],
    )
    model = Eigenformer(small_config(layers=3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        loss = (model(batch) - target).abs().mean()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_an_injected_norm_is_shared_by_all_layers():
    config = load_preset("zinc").model.replace(layers=3, norm_shared=True, norm_affine=True)
    plain = Eigenformer(config, norm=lambda channels: nn.Identity())
    assert plain.num_parameters() < Eigenformer(config).num_parameters()
    nested = Eigenformer(config, norm=lambda channels: nn.Sequential(nn.LayerNorm(channels)))
    first, *others = (layer.norm1[0] for layer in nested.layers)
    assert all(norm.weight is first.weight and norm.bias is first.bias for norm in others)
