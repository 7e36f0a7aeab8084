"""Gated messages along edges as a PyTorch operator, with gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from eigenformer.kernels.native.address import address
from eigenformer.kernels.native.binding import library
from eigenformer.kernels.native.structures import GateCall

_EDGES = "Tensor first_node, Tensor first_edge, Tensor edge_source, Tensor edge_row"
_NUMBERS = "Tensor? coefficients, bool shared_rows, Tensor target, Tensor source, Tensor values"
_SCHEMA = f"{_EDGES}, {_NUMBERS}, Tensor? edge"


class GateInputs(NamedTuple):
    """The inputs of the operator.

    Args:
        first_node: Where the nodes of each graph start, and where those of the last end.
        first_edge: Where the edges of each target start, likewise; sorted by target and source.
        edge_source: The source of each edge, counted from the first node of its graph.
        edge_row: The row of ``edge`` or of ``coefficients`` that each edge has.
        coefficients: ``[rows, F]``, if the edges combine F rows of ``edge``.
        shared_rows: Whether several edges may have the same row of ``edge``.
        target: a, ``[Σn, d]``.
        source: b, ``[Σn, d]``.
        values: v, ``[Σn, d]``.
        edge: c, ``[rows or F, d]``.
    """

    first_node: Tensor
    first_edge: Tensor
    edge_source: Tensor
    edge_row: Tensor
    coefficients: Tensor | None
    shared_rows: bool
    target: Tensor
    source: Tensor
    values: Tensor
    edge: Tensor | None


@torch.library.custom_op(
    "eigenformer::gate", mutates_args=(), schema=f"({_SCHEMA}) -> (Tensor, Tensor)"
)
def gated_mean(*given: Any) -> tuple[Tensor, Tensor]:
    """Returns o_i = Σ_j η_ij v_j / (Σ_j η_ij + ε) with η_ij = σ(a_i + b_j + c_ij), and Σ_j η_ij."""
    inputs = GateInputs(*given)
    out, sums = torch.empty_like(inputs.values), torch.empty_like(inputs.values)
    library().gate(_call(inputs, out, sums))
    return out, sums


@torch.library.custom_op(
    "eigenformer::gate_backward",
    mutates_args=(),
    schema=f"({_SCHEMA}, Tensor out, Tensor sums, Tensor d_out) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
)
def gated_mean_backward(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradients of a, b, v and c; that of c is empty without c."""
    inputs, (out, sums, d_out) = GateInputs(*given[:-3]), given[-3:]
    gradients = _gradients(*given)
    library().gate(_call(inputs, out, sums, d_out, gradients))
    return gradients


@gated_mean.register_fake
def _(*given: Any) -> tuple[Tensor, Tensor]:
    values = GateInputs(*given).values
    return torch.empty_like(values), torch.empty_like(values)


@gated_mean_backward.register_fake
def _gradients(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    inputs = GateInputs(*given[:-3])
    edge = inputs.values.new_empty(0) if inputs.edge is None else torch.empty_like(inputs.edge)
    return *(torch.empty_like(inputs.values) for _ in range(3)), edge  # type: ignore[return-value]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    given = GateInputs(*inputs)
    ctx.shared_rows = given.shared_rows
    ctx.save_for_backward(*(x for x in given if not isinstance(x, bool)), *output)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # or zeros would be made for the sums


def _differentiate(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *edges, target, source, values, edge, out, sums = ctx.saved_tensors
    given = *edges, ctx.shared_rows, target, source, values, edge, out, sums
    *of_nodes, of_edges = gated_mean_backward(*given, d_out.contiguous())
    return *(None,) * 6, *of_nodes, None if edge is None else of_edges


gated_mean.register_autograd(_differentiate, setup_context=_setup)


def _call(
    inputs: GateInputs,
    out: Tensor,
    sums: Tensor,
    d_out: Tensor | None = None,
    gradients: tuple[Tensor, ...] | None = None,
) -> GateCall:
    first_node, first_edge, edge_source, edge_row, a, shared, target, source, values, edge = inputs
    if values.dim() != 2 or first_node.dim() != 1 or edge_source.dim() != 1:
        raise ValueError("values, first_node, edge_source: expected 2, 1 and 1 dimensions")
    if any(x is not None and x.dim() != 2 for x in (a, edge)):
        raise ValueError("coefficients, edge: expected 2 dimensions")
    (nodes, channels), graphs, edges = values.shape, len(first_node) - 1, len(edge_source)
    if min(graphs, nodes, channels) < 1:
        raise ValueError("an empty batch: there must be graphs, nodes and channels")
    rows, factors = (0 if edge is None else len(edge), 0) if a is None else a.shape
    of_nodes, of_edges = (nodes, channels), (factors if a is not None else rows, channels)
    d_target, d_source, d_values, d_edge = gradients or (None,) * 4
    return GateCall(
        graphs=graphs,
        nodes=nodes,
        channels=channels,
        edges=edges,
        rows=rows,
        factors=factors,
        first_node=address(first_node, "first_node", (graphs + 1,), torch.int64),
        first_edge=address(first_edge, "first_edge", (nodes + 1,), torch.int64),
        edge_source=address(edge_source, "edge_source", (edges,), torch.int64),
        edge_row=None if edge is None else address(edge_row, "edge_row", (edges,), torch.int64),
        coefficients=address(a, "coefficients", (rows, factors)),
        target=address(target, "target", of_nodes),
        source=address(source, "source", of_nodes),
        values=address(values, "values", of_nodes),
        edge=address(edge, "edge", of_edges),
        out=address(out, "out", of_nodes),
        sums=address(sums, "sums", of_nodes),
        d_out=address(d_out, "gradient of out", of_nodes),
        d_target=address(d_target, "gradient of target", of_nodes),
        d_source=address(d_source, "gradient of source", of_nodes),
        d_values=address(d_values, "gradient of values", of_nodes),
        d_edge=None if edge is None else address(d_edge, "gradient of edge", of_edges),
        shared_rows=shared,
        threads=torch.get_num_threads(),
    )
