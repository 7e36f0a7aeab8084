from __future__ import annotations

import pytest
import torch
from torch.export import Dim, export

from eigenformer import Eigenformer
from eigenformer.config import CategoricalSpec, LinearSpec
from eigenformer.export import SingleGraph
from eigenformer.scalar_mlp import find_knots
from tests.graphs import graph, random_batch, random_graph, small_config


def tensors(data):
    vectors = data.eigenvectors.view(data.num_nodes, -1)
    return data.x, data.edge_index, data.edge_attr, data.eigenvalues, vectors


@pytest.mark.parametrize("feature_attention", [False, True])
def test_exported_program_takes_graphs_of_any_size(feature_attention):
    model = Eigenformer(small_config(feature_attention=feature_attention, pooling="mean")).eval()
    size = Dim.DYNAMIC
    shapes = ({0: size}, {1: size}, {0: size}, {0: size}, {0: size, 1: size})
    program = export(SingleGraph(model), tensors(random_graph(9)), dynamic_shapes=shapes)
    for n in (5, 14):
        data = random_graph(n)
        assert torch.allclose(program.module()(*tensors(data)), model(data), atol=1e-6)


def test_exported_program_of_all_options():
    options = {"node_potentials": 5, "local_branch": "gine", "filters": 4, "last_norm": False}
    options |= {"head_layers": 2, "pooling": "mean"}
    model, size = Eigenformer(small_config(**options)).eval(), Dim.DYNAMIC
    shapes = ({0: size}, {1: size}, {0: size}, {0: size}, {0: size, 1: size})
    program = export(SingleGraph(model), tensors(random_graph(9)), dynamic_shapes=shapes)
    for data in (random_graph(5), random_graph(14), graph(4, [])):
        assert torch.allclose(program.module()(*tensors(data)), model(data), atol=1e-6)


@pytest.mark.parametrize("edge_encoder", [LinearSpec(1), CategoricalSpec((4,))])
def test_exported_edges_may_be_many_or_none(edge_encoder):
    config = small_config(feature_attention=True, edge_encoder=edge_encoder, pooling="mean")
    model, size = Eigenformer(config).eval(), Dim.DYNAMIC
    shapes = ({0: size}, {1: size}, {0: size}, {0: size}, {0: size, 1: size})
    program = export(SingleGraph(model), tensors(random_graph(9)), dynamic_shapes=shapes)
    pairs = [(i, j) for i in range(50) for j in range(50)]
    for data in (graph(50, pairs), graph(4, []), random_graph(14)):
        assert torch.allclose(program.module()(*tensors(data)), model(data), atol=2e-5)


@pytest.mark.parametrize("backend", ["torch", pytest.param("literal", marks=pytest.mark.slow)])
def test_compiled_model_gives_the_same_outputs_and_gradients(backend):
    batch = random_batch([5, 9, 9])
    options = {"node_potentials": 3, "local_branch": "gine", "filters": 4, "head_layers": 2}
    model = Eigenformer(small_config(layers=1, **options), backend)
    weight = torch.randn(3, 1)  # unequal: a mere sum has gradient 0 behind a batch norm
    expected = model(batch)
    (expected * weight).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    torch._dynamo.reset()
    out = torch.compile(model, backend="aot_eager")(batch)
    assert torch.allclose(out, expected, atol=1e-5)
    (out * weight).sum().backward()
    largest = max(g.abs().max() for g in gradients.values())
    assert gradients["layers.0.attention.phi1.weights.0"].abs().max() > 1e-6 * largest
    for name, p in model.named_parameters():
        assert (p.grad - gradients[name]).abs().max() < 1e-5 * largest, name


@pytest.mark.slow
def test_compiled_by_inductor():
    model = Eigenformer(small_config(layers=1, feature_attention=True)).eval()
    torch._dynamo.reset()
    compiled = torch.compile(model)
    for sizes in ([5, 9, 9], [3, 12]):
        batch = random_batch(sizes)
        assert torch.allclose(compiled(batch), model(batch), atol=1e-5)


def test_finding_knots_is_a_proper_operator():
    weights = [torch.randn(3, 4, 1), torch.randn(3, 4, 4), torch.randn(3, 1, 4)]
    biases = [torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 1)]
    ends = torch.tensor([-1.0] * 3), torch.tensor([1.0] * 3)
    torch.library.opcheck(find_knots, (weights, biases, *ends))
