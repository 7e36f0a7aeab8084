from __future__ import annotations

import json

import pytest
import torch
from torch.export import Dim, export
from torch.fx import GraphModule

from eigenformer import Eigenformer
from eigenformer.config import (
    CategoricalSpec,
    EmbeddingSpec,
    LinearSpec,
    MessagePassingConfig,
    OnesSpec,
)
from eigenformer.export import SingleGraph, export_program, inputs_of, save_program
from eigenformer.models import build_model
from eigenformer.models.ensemble import Ensemble
from eigenformer.scalar_mlp import find_knots
from eigenformer.targets import ClassTarget, NumberTarget
from tests.graphs import graph, random_batch, random_graph, small_config


@pytest.mark.parametrize("feature_attention", [False, True])
def test_exported_program_takes_graphs_of_any_size(feature_attention):
    model = Eigenformer(small_config(feature_attention=feature_attention, pooling="mean")).eval()
    size = Dim.DYNAMIC
    shapes = ({0: size}, {1: size}, {0: size}, {0: size}, {0: size, 1: size})
    program = export(SingleGraph(model), inputs_of(random_graph(9)), dynamic_shapes=shapes)
    for n in (5, 14):
        data = random_graph(n)
        assert torch.allclose(program.module()(*inputs_of(data)), model(data), atol=1e-6)


def test_exported_program_of_all_options():
    options = {"node_potentials": 5, "local_branch": "gine", "filters": 4, "last_norm": False}
    options |= {"head_layers": 2, "pooling": "mean"}
    model, size = Eigenformer(small_config(**options)).eval(), Dim.DYNAMIC
    shapes = ({0: size}, {1: size}, {0: size}, {0: size}, {0: size, 1: size})
    program = export(SingleGraph(model), inputs_of(random_graph(9)), dynamic_shapes=shapes)
    for data in (random_graph(5), random_graph(14), graph(4, [])):
        assert torch.allclose(program.module()(*inputs_of(data)), model(data), atol=1e-6)


@pytest.mark.parametrize("edge_encoder", [LinearSpec(1), CategoricalSpec((4,))])
def test_exported_edges_may_be_many_or_none(edge_encoder):
    config = small_config(feature_attention=True, edge_encoder=edge_encoder, pooling="mean")
    model, size = Eigenformer(config).eval(), Dim.DYNAMIC
    shapes = ({0: size}, {1: size}, {0: size}, {0: size}, {0: size, 1: size})
    program = export(SingleGraph(model), inputs_of(random_graph(9)), dynamic_shapes=shapes)
    pairs = [(i, j) for i in range(50) for j in range(50)]
    for data in (graph(50, pairs), graph(4, []), random_graph(14)):
        assert torch.allclose(program.module()(*inputs_of(data)), model(data), atol=2e-5)


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


def operators(program):
    """The libraries of all operators of a program."""
    parts = [part for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    calls = [node.target for part in parts for node in part.graph.nodes if node.op[:4] == "call"]
    return {call.namespace for call in calls if isinstance(call, torch._ops.OpOverload)}


@pytest.mark.parametrize("backend", ["literal", pytest.param("torch", marks=pytest.mark.slow)])
def test_a_saved_program_predicts_in_units(backend, tmp_path):
    options = {"feature_attention": True, "filters": 4, "node_potentials": 2}
    model = Eigenformer(small_config(layers=1, **options)).eval()
    target = NumberTarget(names=("y",), mean=(2.0,), scale=(5.0,))
    program = export_program(model, target, backend)
    assert operators(program) == ({"aten"} if backend == "literal" else {"aten", "eigenformer"})
    save_program(program, tmp_path / "new" / "m.pt2", {"outputs": ["y"]})
    extra = {"eigenformer.json": ""}
    loaded = torch.export.load(tmp_path / "new" / "m.pt2", extra_files=extra)
    assert json.loads(extra["eigenformer.json"]) == {"outputs": ["y"]}
    for n in (2, 5, 14):
        data = random_graph(n)
        expected = target.in_units(model(data))
        assert torch.allclose(loaded.module()(*inputs_of(data)), expected, atol=1e-4)


@pytest.mark.slow
def test_every_encoder_has_an_example_to_export_with():
    for edges in (OnesSpec(), LinearSpec(2), None):
        config = small_config(
            layers=1, node_encoder=LinearSpec(3), edge_encoder=edges, out_channels=2
        )
        model = Eigenformer(config).eval()
        program = export_program(model, ClassTarget(num_outputs=2))
        data = random_graph(7)
        data.x = torch.randn(7, 3)
        data.edge_attr = torch.randn(data.num_edges, 2) if isinstance(edges, LinearSpec) else None
        found = program.module()(*inputs_of(data))
        assert torch.allclose(found, model(data).softmax(1), atol=1e-5)


def test_what_cannot_be_exported(tmp_path):
    model = Eigenformer(small_config(layers=1)).eval()
    with pytest.raises(ValueError, match="an ensemble cannot be exported as one program"):
        export_program(Ensemble([model, model], [NumberTarget()] * 2))
    with pytest.raises(ValueError, match="descriptors beside the graph cannot be exported"):
        export_program(Eigenformer(small_config(num_descriptors=2)))
    other = build_model(MessagePassingConfig(EmbeddingSpec(22, width=8), kind="gin"))
    with pytest.raises(ValueError, match="has no spectrum-aware attention"):
        export_program(other)
    with pytest.raises(ValueError, match=".pt2 files; give such a name"):
        save_program(None, tmp_path / "m.onnx", {})
