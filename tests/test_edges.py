"""Encoded edges: whatever they share, the same attention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenformer import Eigenformer, SpectrumAwareAttention
from eigenformer.config import LinearSpec
from eigenformer.edges import Edges, relu_logits
from eigenformer.encoders import CategoricalEncoder, EmbeddingEncoder, LinearEncoder
from eigenformer.ragged import RaggedGraphs
from tests.graphs import graph, random_batch, small_config


def attend(layer: SpectrumAwareAttention, x: Tensor, data: object, edges: Edges) -> list[Tensor]:
    """The output and the gradients of all parameters."""
    layer.zero_grad()
    out = layer(x, data, edges)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


@pytest.mark.parametrize("backend", ["literal", "torch", "native"])
@pytest.mark.parametrize("feature_attention", [True, False])
def test_a_sum_of_factors_is_its_rows(feature_attention: bool, backend: str) -> None:
    dtype = torch.float32 if backend == "native" else torch.float64
    batch = random_batch([5, 1, 9], dtype=dtype)
    layer = SpectrumAwareAttention(
        8, 2, feature_attention=feature_attention, edge_features=True, backend=backend
    ).to(dtype)
    x, none = torch.randn(15, 8, dtype=dtype), torch.randn(8, dtype=dtype)
    vectors = torch.randn(3, 8, dtype=dtype)
    coefficients = torch.randn(batch.num_edges, 3, dtype=dtype)
    rows = Edges(none + coefficients @ vectors, none)
    shared = Edges(vectors, none, coefficients=coefficients)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if backend == "native" else {}
    expected, found = attend(layer, x, batch, rows), attend(layer, x, batch, shared)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("feature_attention", [True, False])
def test_a_model_of_linear_edges_encodes_no_edge_by_itself(
    feature_attention: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(edge_encoder=LinearSpec(2), feature_attention=feature_attention)
    model = Eigenformer(config).double()
    batch = random_batch([6, 4], dtype=torch.float64)
    batch.edge_attr = torch.rand(batch.num_edges, 2).double()
    with monkeypatch.context() as patch:
        patch.setattr(model.edge_encoder, "forward", lambda x: pytest.fail("encoded every edge"))
        found = model(batch)
    monkeypatch.setattr(model.edge_encoder, "factors", lambda features: None)
    torch.testing.assert_close(found, model(batch))


@pytest.mark.parametrize("backend", ["literal", "torch", "native"])
def test_what_is_wrong_with_edges_is_said(backend: str) -> None:
    data, x = graph(3, [(0, 1), (1, 2)]), torch.randn(3, 4)
    layer = SpectrumAwareAttention(4, 2, feature_attention=True, edge_features=True)
    layer.backend = backend
    rows, kind = torch.randn(2, 4), torch.tensor([0, 1])
    for edges, message in (
        (torch.randn(4, 4), "4 rows, expected one for each of 2"),
        (Edges(rows, kinds=torch.tensor([0])), "1 rows, expected one for each of 2"),
        (Edges(rows, coefficients=torch.ones(4, 2)), "4 rows"),
        (Edges(rows, coefficients=torch.ones(2, 3)), r"shape \(2, 3\), .* 2 rows"),
        (Edges(rows, kinds=kind, coefficients=torch.ones(2, 2)), "not both"),
    ):
        with pytest.raises(ValueError, match=message):
            layer(x, data, edges)
    integers = torch.tensor([[1, 0], [2, 1]])
    found = layer(x, data, Edges(rows, coefficients=integers))
    torch.testing.assert_close(found, layer(x, data, Edges(integers.float() @ rows)))


def test_parallel_edges_are_summed_once() -> None:
    data = graph(2, [(0, 1), (0, 1), (1, 0)])
    graphs = RaggedGraphs.from_data(data)
    layer = SpectrumAwareAttention(4, 2, edge_features=True)
    rows, x = torch.randn(3, 4), torch.randn(2, 4)
    edges = Edges.of(rows, graphs)
    torch.testing.assert_close(edges.rows, torch.stack([rows[0] + rows[1], rows[2]]))
    assert Edges.of(edges, graphs) is edges
    torch.testing.assert_close(layer(x, data, rows), layer(x, data, edges))
    with pytest.raises(ValueError, match="3 rows, expected one for each of 2"):
        layer(x, data, Edges(rows))


@pytest.mark.parametrize(
    "encoder",
    [
        EmbeddingEncoder(4, 3, 5, 0),
        LinearEncoder(4, 2),
        CategoricalEncoder(4, (3, 3)),
        CategoricalEncoder(4, (300, 3)),
    ],
    ids=["types", "numbers", "few categories", "many categories"],
)
@pytest.mark.parametrize("parallel", [False, True])
def test_encoded_edges_are_exact_whatever_they_share(encoder, parallel: bool) -> None:
    encoder.double()
    edges = [(0, 1), (1, 2), (2, 0), *([(0, 1)] if parallel else [])]
    graphs = RaggedGraphs.from_data(graph(3, edges, torch.float64))
    columns = 1 if isinstance(encoder, EmbeddingEncoder) else 2
    features = torch.randint(3, (len(edges), columns))
    found = Edges.encode(encoder, features, graphs)
    shares = found.kinds is not None or found.coefficients is not None
    many = isinstance(encoder, CategoricalEncoder) and encoder.sizes == (300, 3)
    assert shares == (not parallel and not many)
    e = graphs.sum_parallel(encoder(features))
    none = encoder.no_edge()
    none = torch.zeros(4).double() if none is None else none
    value, hidden = nn.Linear(4, 4).double(), nn.Linear(4, 4).double()
    heads = torch.randn(2, 2).double()
    torch.testing.assert_close(found.project(value.weight, value.bias), value(e))
    everywhere, terms = found.terms(value, 2, hidden, heads)
    torch.testing.assert_close(everywhere, value(none))
    terms = terms.by_edge()
    torch.testing.assert_close(terms.values.flatten(1), value(e) - value(none))

    def logits(rows: Tensor) -> Tensor:
        return (hidden(rows).relu().view(-1, 2, 2) * heads).sum(-1)

    torch.testing.assert_close(terms.logits, logits(e) - logits(none))


def test_relu_logits_can_be_differentiated_twice() -> None:
    torch.manual_seed(0)
    inputs = [
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((5, 3), (3, 8), (8,), (2, 4))
    ]
    assert torch.autograd.gradgradcheck(relu_logits, inputs)
    x, *others = inputs
    found = torch.func.grad(lambda x: relu_logits(x, *others).sum())(x)
    torch.testing.assert_close(found, torch.autograd.grad(relu_logits(*inputs).sum(), x)[0])


@pytest.mark.parametrize("rows", [0, 1, 7, 5000])
def test_relu_logits(rows: int) -> None:
    torch.manual_seed(0)
    x, w, b, r = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((rows, 3), (3, 8), (8,), (2, 4))
    )
    found = relu_logits(x, w, b, r)
    expected = ((x @ w + b).relu().view(-1, 2, 4) * r).sum(-1)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    gradients = (torch.autograd.grad((y * weight).sum(), (x, w, b, r)) for y in (found, expected))
    for a, c in zip(*gradients, strict=True):
        torch.testing.assert_close(a, c)
