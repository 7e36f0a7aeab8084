"""Native attention as PyTorch operators, with gradients, and with shapes for the compiler."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from eigenformer.kernels.native.address import address
from eigenformer.kernels.native.binding import library
from eigenformer.kernels.native.structures import AttentionCall, Evaluation, Gradients
from eigenformer.kernels.operators import (
    DIFFERENTIABLE,
    NO_FEATURES,
    new_gradients,
    register_backward,
    schemas,
)


class Inputs(NamedTuple):
    """Inputs of the operator, with the shapes that structures.h describes."""

    first_node: Tensor
    first_frequency: Tensor
    first_edge: Tensor
    edge_source: Tensor
    edge_kind: Tensor
    edge_coefficients: Tensor | None
    eigenvectors: Tensor
    importance: Tensor
    knots: Tensor
    slopes: Tensor
    intercepts: Tensor
    values: Tensor
    queries: Tensor | None
    keys: Tensor | None
    edge_logits: Tensor | None
    edge_values: Tensor | None
    seed: Tensor
    dropout: float
    psi: int
    shared_kinds: bool


_FORWARD, _BACKWARD = schemas(Inputs)


@torch.library.custom_op("eigenformer::attention", mutates_args=(), schema=_FORWARD)
def attention(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Computes attention over a ragged batch from :class:`Inputs`.

    Returns the attended values of each node, ``[Σn, heads, C]``, and for each row of the softmax
    the largest logit and the inverse of the sum, ``[Σn, heads]``.
    """
    inputs = Inputs(*arguments)
    outputs = _outputs(inputs)
    library().forward(_call(inputs, outputs))
    return outputs


@torch.library.custom_op("eigenformer::attention_backward", mutates_args=(), schema=_BACKWARD)
def attention_backward(*arguments: Any) -> tuple[Tensor, ...]:
    """Returns the gradients of the differentiable inputs; empty for missing inputs."""
    *given, out, maximum, inverse, d_out = arguments
    inputs = Inputs(*given)
    call = _call(inputs, (out, maximum, inverse))
    gradients = new_gradients(inputs)
    wanted = {
        name: address(d, f"gradient of {name}", d.shape)
        for name, d in zip(DIFFERENTIABLE, gradients, strict=True)
    }
    d_out = address(d_out, "d_out", inputs.values.shape)
    library().backward(call, Gradients(d_out=d_out, **wanted))
    return gradients


@attention.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(Inputs(*arguments))


@attention_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, ...]:
    return new_gradients(Inputs(*arguments[:-4]))


def _outputs(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    values = inputs.values
    rows = values.shape[:2]
    return torch.empty_like(values), values.new_empty(rows), values.new_empty(rows)


register_backward(attention, attention_backward, Inputs)


_EVALUATION = "Tensor x, Tensor knots, Tensor slopes, Tensor intercepts, int heads"


@torch.library.custom_op(
    "eigenformer::evaluate_pieces", mutates_args=(), schema=f"({_EVALUATION}) -> Tensor"
)
def evaluate_pieces(*arguments: Any) -> Tensor:
    """Evaluates scalar functions through their linear pieces, all at the same numbers ``x``.

    Each layer has ``heads`` functions: the result is ``[layers, len(x), heads]``.
    """
    x, knots, slopes, intercepts, heads = arguments
    if heads < 1 or slopes.dim() != 2 or len(slopes) % heads:
        raise ValueError("slopes, heads: expected whole layers of functions by segments")
    y = _values(x, slopes, heads)
    library().evaluate(_evaluation(x, knots, slopes, intercepts, heads, y))
    return y


@torch.library.custom_op(
    "eigenformer::evaluate_pieces_backward",
    mutates_args=(),
    schema=f"({_EVALUATION}, Tensor d_y) -> (Tensor, Tensor)",
)
def evaluate_pieces_backward(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Returns the gradients of slopes and intercepts."""
    x, knots, slopes, intercepts, heads, d_y = arguments
    gradients = torch.empty_like(slopes), torch.empty_like(intercepts)
    given = _evaluation(x, knots, slopes, intercepts, heads, d_y, *gradients)
    library().evaluate(given, backward=True)
    return gradients


@evaluate_pieces.register_fake
def _(*arguments: Any) -> Tensor:
    return _values(arguments[0], arguments[2], arguments[4])


@evaluate_pieces_backward.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(arguments[2]), torch.empty_like(arguments[3])


def _evaluation_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.heads = inputs[4]


def _evaluation_gradients(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
    gradients = evaluate_pieces_backward(*ctx.saved_tensors, ctx.heads, d_y.contiguous())
    return None, None, *gradients, None


evaluate_pieces.register_autograd(_evaluation_gradients, setup_context=_evaluation_setup)


def _values(x: Tensor, slopes: Tensor, heads: int) -> Tensor:
    return x.new_empty(len(slopes) // heads, len(x), heads)


def _evaluation(
    x: Tensor,
    knots: Tensor,
    slopes: Tensor,
    intercepts: Tensor,
    heads: int,
    y: Tensor,
    d_slopes: Tensor | None = None,
    d_intercepts: Tensor | None = None,
) -> Evaluation:
    functions, segments = slopes.shape
    return Evaluation(
        functions=functions,
        segments=segments,
        count=x.numel(),
        heads=heads,
        x=address(x, "x", (x.numel(),)),
        knots=address(knots, "knots", (functions, segments - 1)),
        slopes=address(slopes, "slopes", (functions, segments)),
        intercepts=address(intercepts, "intercepts", (functions, segments)),
        y=address(y, "y", (functions // heads, len(x), heads)),
        d_slopes=address(d_slopes, "gradient of slopes", (functions, segments)),
        d_intercepts=address(d_intercepts, "gradient of intercepts", (functions, segments)),
    )


def _call(inputs: Inputs, outputs: tuple[Tensor, Tensor, Tensor]) -> AttentionCall:
    """Returns the structure that passes the inputs to the library.

    Checks everything that the library relies on.
    """
    x = inputs
    for name, dimensions in (("values", 3), ("slopes", 2), ("importance", 2), ("first_node", 1)):
        if getattr(x, name).dim() != dimensions:
            raise ValueError(f"{name}: expected {dimensions} dimensions")
    nodes, heads, channels = x.values.shape
    graphs, segments, edges = len(x.first_node) - 1, x.slopes.size(1), x.edge_source.numel()
    mixed, factors = x.edge_coefficients, 0
    if mixed is not None:
        if mixed.dim() != 2 or x.edge_values is None:
            raise ValueError("edge_coefficients: expected edges by factors, and edge_values")
        factors = mixed.size(1)
    rows = (mixed, x.edge_logits, x.edge_values)
    kinds = next((len(e) for e in rows if e is not None), 0)
    if min(nodes, heads, channels, graphs, segments) < 1:
        raise ValueError("an empty batch: there must be graphs, nodes, heads and channels")
    if {x.queries is None, x.keys is None} != {x.psi == NO_FEATURES}:
        raise ValueError("queries, keys, psi: all of them or none")
    features = nodes, heads, channels
    out, maximum, inverse = outputs
    return AttentionCall(
        graphs=graphs,
        nodes=nodes,
        frequencies=len(x.importance),
        heads=heads,
        channels=channels,
        segments=segments,
        edges=edges,
        edge_kinds=kinds,
        factors=factors,
        entries=x.eigenvectors.numel(),
        first_node=address(x.first_node, "first_node", (graphs + 1,), torch.int64),
        first_frequency=address(x.first_frequency, "first_frequency", (graphs + 1,), torch.int64),
        first_edge=address(x.first_edge, "first_edge", (nodes + 1,), torch.int64),
        edge_source=address(x.edge_source, "edge_source", (edges,), torch.int64),
        edge_kind=address(x.edge_kind, "edge_kind", (edges,), torch.int64),
        edge_coefficients=address(mixed, "edge_coefficients", (kinds, factors)),
        eigenvectors=address(x.eigenvectors, "eigenvectors", (x.eigenvectors.numel(),)),
        importance=address(x.importance, "importance", (len(x.importance), heads)),
        knots=address(x.knots, "knots", (heads, segments - 1)),
        slopes=address(x.slopes, "slopes", (heads, segments)),
        intercepts=address(x.intercepts, "intercepts", (heads, segments)),
        values=address(x.values, "values", features),
        queries=address(x.queries, "queries", features),
        keys=address(x.keys, "keys", features),
        edge_logits=address(x.edge_logits, "edge_logits", (kinds, heads)),
        edge_values=address(
            x.edge_values, "edge_values", (kinds if mixed is None else factors, *features[1:])
        ),
        seed=int(x.seed),
        dropout=x.dropout,
        psi=x.psi,
        shared_kinds=x.shared_kinds,
        threads=torch.get_num_threads(),
        out=address(out, "out", features),
        maximum=address(maximum, "maximum", (nodes, heads)),
        inverse=address(inverse, "inverse", (nodes, heads)),
    )
