"""Filters of the spectrum as a PyTorch operator, with gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eigenformer.kernels.native.address import address
from eigenformer.kernels.native.binding import library
from eigenformer.kernels.native.structures import FilterCall

_SCHEMA = "Tensor first_node, Tensor first_frequency, Tensor eigenvectors, Tensor importance"


@torch.library.custom_op(
    "eigenformer::filter", mutates_args=(), schema=f"({_SCHEMA}, Tensor values) -> (Tensor, Tensor)"
)
def filter_nodes(
    first_node: Tensor,
    first_frequency: Tensor,
    eigenvectors: Tensor,
    importance: Tensor,
    values: Tensor,
) -> tuple[Tensor, Tensor]:
    """Computes U (f ⊙ Uᵀ x) over a ragged batch.

    Args:
        first_node: Where the nodes of each graph start, and where those of the last end.
        first_frequency: Where the frequencies of each graph start, likewise.
        eigenvectors: The matrices U, flattened and concatenated.
        importance: f, ``[Σk, filters]``.
        values: x, ``[Σn, filters, C]``.

    Returns:
        The filtered values, and Uᵀ x, ``[Σk, filters, C]``.
    """
    out, modes = _outputs(importance, values)
    spectra = first_node, first_frequency, eigenvectors
    library().filter(_call(*spectra, importance, values, modes, out))
    return out, modes


@torch.library.custom_op(
    "eigenformer::filter_backward",
    mutates_args=(),
    schema=f"({_SCHEMA}, Tensor modes, Tensor d_out) -> (Tensor, Tensor)",
)
def filter_backward(
    first_node: Tensor,
    first_frequency: Tensor,
    eigenvectors: Tensor,
    importance: Tensor,
    modes: Tensor,
    d_out: Tensor,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of importance and values."""
    d_importance, d_values = torch.empty_like(importance), torch.empty_like(d_out)
    spectra = first_node, first_frequency, eigenvectors
    library().filter(_call(*spectra, importance, d_out, modes, d_values, d_importance))
    return d_importance, d_values


@filter_nodes.register_fake
def _(first_node: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
    return _outputs(*given[-2:])


@filter_backward.register_fake
def _(*given: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(given[3]), torch.empty_like(given[5])


def _outputs(importance: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(values), values.new_empty(len(importance), *values.shape[1:])


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:-1], output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # or zeros would be made for the modes


def _gradients(ctx: Any, d_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return None, None, None, *filter_backward(*ctx.saved_tensors, d_out.contiguous())


filter_nodes.register_autograd(_gradients, setup_context=_setup)


def _call(
    first_node: Tensor,
    first_frequency: Tensor,
    eigenvectors: Tensor,
    importance: Tensor,
    values: Tensor,
    modes: Tensor,
    out: Tensor,
    d_importance: Tensor | None = None,
) -> FilterCall:
    if values.dim() != 3 or importance.dim() != 2 or first_node.dim() != 1:
        raise ValueError("values, importance, first_node: expected 3, 2 and 1 dimensions")
    (nodes, filters, channels), frequencies = values.shape, len(importance)
    graphs, entries = len(first_node) - 1, eigenvectors.numel()
    if min(graphs, nodes, filters, channels) < 1:
        raise ValueError("an empty batch: there must be graphs, nodes, filters and channels")
    by_frequency, offsets = (frequencies, filters), (graphs + 1,)
    return FilterCall(
        graphs=graphs,
        nodes=nodes,
        frequencies=frequencies,
        filters=filters,
        channels=channels,
        entries=entries,
        first_node=address(first_node, "first_node", offsets, torch.int64),
        first_frequency=address(first_frequency, "first_frequency", offsets, torch.int64),
        eigenvectors=address(eigenvectors, "eigenvectors", (entries,)),
        importance=address(importance, "importance", by_frequency),
        values=address(values, "values", (nodes, filters, channels)),
        modes=address(modes, "modes", (*by_frequency, channels)),
        out=address(out, "out", (nodes, filters, channels)),
        d_importance=address(d_importance, "gradient of importance", by_frequency),
        threads=torch.get_num_threads(),
    )
