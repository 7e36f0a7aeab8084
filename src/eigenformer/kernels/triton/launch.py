"""Starts the kernels, one after the other."""

from __future__ import annotations

import ctypes
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eigenformer.kernels.triton import backward, edges, forward
from eigenformer.kernels.triton.layout import BLOCK, MOST_CHANNELS, Layout
from eigenformer.kernels.triton.tiles import FREQUENCIES

THREADS = 256
"""Threads of a program: 8 warps of NVIDIA's GPUs, 4 of AMD's. So nothing spills to memory."""
REGISTERS = 255
"""Registers that a thread of NVIDIA's GPUs may have."""
# Rows of shared edge terms are summed by about this many programs.
_PROGRAMS = 256
# Without a limit, NVIDIA's compiler spills registers so that more programs run side by side.
_OPTIONS = (
    {"num_warps": THREADS // 64, "num_stages": 1}
    if torch.version.hip
    else {"num_warps": THREADS // 32, "num_stages": 1, "maxnreg": REGISTERS}
)


class Inputs(NamedTuple):
    """Inputs of attention: a :class:`Layout`, then one layer's terms.

    ``importance`` is ``[Σk, heads]``, the pieces of φ₁ are ``[heads, segments]``, and ``values``,
    ``queries`` and ``keys`` are ``[Σn, heads, C]``. Edge e of the layout uses row ``edge_kind[e]``
    of ``edge_logits``, and of ``edge_values`` or, if they are given, of ``edge_coefficients``.
    """

    blocks: Tensor
    first_node: Tensor
    first_frequency: Tensor
    first_entry: Tensor
    first_part: Tensor
    first_part_of_graph: Tensor
    node_graph: Tensor
    first_edge: Tensor
    edge_source: Tensor
    edge_target: Tensor
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
    largest: int
    parts: int

    @property
    def layout(self) -> Layout:
        return Layout(*(getattr(self, name) for name in Layout._fields))

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks of rows, and heads."""
        return len(self.blocks), self.values.size(1)

    def tensors(self) -> list[Tensor | None]:
        """Returns what the kernels of tiles read."""
        names = (
            "first_edge edge_source edge_kind eigenvectors importance knots slopes intercepts "
            "values queries keys edge_logits seed"
        )
        return [getattr(self, name) for name in names.split()]

    def numbers(self) -> list[float]:
        """Returns the numbers that the kernels of tiles take, in their order."""
        _, heads, channels = self.values.shape
        pieces = self.slopes.size(1)
        steps = (pieces - 1).bit_length(), self.largest.bit_length()
        return [heads, channels, pieces, *steps, 1 / math.sqrt(channels), *self.dropping()]

    def dropping(self) -> tuple[int, float]:
        """Returns the threshold of random numbers of 31 bits, and the scale of what is kept."""
        dropout = ctypes.c_float(self.dropout).value
        return int(dropout * 2**31), 1 / (1 - dropout)

    def options(self) -> dict[str, Any]:
        """Returns what the kernels are compiled for."""
        there = len(self.edge_source) > 0
        logits, values = (there and x is not None for x in (self.edge_logits, self.edge_values))
        return {
            "PSI": self.psi,
            "DROPOUT": self.dropout > 0,
            "EDGES": logits or values,
            "EDGE_LOGITS": logits,
            "EDGE_VALUES": values,
            **self.sizes(),
        }

    def sizes(self) -> dict[str, Any]:
        """Returns the size of tiles, and with how many warps they are computed."""
        wide = 16 if self.values.size(2) <= 16 else MOST_CHANNELS
        return {"BLOCK": BLOCK, "CHANNELS": wide, **_OPTIONS}


def on_device(x: Tensor) -> AbstractContextManager[object]:
    """Makes the device of ``x`` the current one, on which kernels are started."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def longest_row(layout: Layout, eigenvectors: Tensor) -> Tensor:
    """Returns max_i ‖u[i]‖² over the rows of all U."""
    found = eigenvectors.new_empty(len(layout.node_graph))
    with on_device(eigenvectors):
        forward.norms[(len(layout.blocks),)](
            *layout[:4], eigenvectors, found, FREQUENCIES=FREQUENCIES, BLOCK=BLOCK, **_OPTIONS
        )
    return found.amax()


def attend(x: Inputs, out: Tensor, maximum: Tensor, inverse: Tensor) -> None:
    """Fills the outputs: attended values, and of each row the maximum and the inverse sum."""
    options, layout = x.options(), x.layout
    at_edges = _at_edges(x) if options["EDGE_VALUES"] else None
    softmax = maximum, inverse
    forward.attend[x.grid](
        *layout[:4], *x.tensors(), out, *softmax, at_edges, *x.numbers(), **options
    )
    if options["EDGE_VALUES"]:
        nodes, heads, channels = x.values.shape
        edges.messages[_grid(nodes, heads)](
            layout.first_node, layout.node_graph, layout.first_edge, layout.edge_source,
            x.edge_kind, x.edge_coefficients, x.edge_values, x.seed, at_edges, *softmax, out,
            nodes, heads, channels, _factors(x), *x.dropping(),
            FACTORS=x.edge_coefficients is not None, DROPOUT=x.dropout > 0, **x.sizes(),
        )  # fmt: skip


def differentiate(
    x: Inputs, saved: tuple[Tensor, Tensor, Tensor], d_out: Tensor
) -> dict[str, Tensor]:
    """Returns the gradients by the name of the input. ``saved`` are the outputs of :func:`attend`.

    Every sum has a fixed order, so that the same inputs give the same bits.
    """
    options, layout = x.options(), x.layout
    blocks, heads = x.grid
    products = _edge_products(x, d_out) if options["EDGE_VALUES"] else None
    weights = _at_edges(x) if options["EDGE_VALUES"] else None
    gradients = _at_edges(x) if options["EDGE_LOGITS"] else None
    d_values = torch.empty_like(x.values)
    d_queries, d_keys = (None if y is None else torch.empty_like(y) for y in (x.queries, x.keys))
    means = torch.empty_like(saved[1])
    parts = x.importance.new_zeros(x.parts, heads)
    of_pieces = [x.slopes.new_zeros(blocks, *x.slopes.shape) for _ in range(2)]
    backward.rows[x.grid](
        *layout[:5], *x.tensors(), *saved, d_out, products,
        means, d_queries, weights, gradients, parts, *of_pieces, *x.numbers(), **options,
    )  # fmt: skip
    backward.columns[x.grid](
        *layout[:4], *x.tensors(), *saved[1:], d_out, products, means, d_values, d_keys,
        *x.numbers(), **options,
    )  # fmt: skip
    d_importance = torch.empty_like(x.importance)
    backward.sum_importance[(len(layout.first_entry), heads)](
        d_importance, parts, layout.first_node, layout.first_frequency,
        layout.first_part_of_graph, heads, BLOCK=BLOCK, **_OPTIONS,
    )  # fmt: skip
    d_slopes, d_intercepts = (sums.sum(0) for sums in of_pieces)
    found = {
        "importance": d_importance,
        "slopes": d_slopes,
        "intercepts": d_intercepts,
        "values": d_values,
        "queries": d_queries,
        "keys": d_keys,
        **_edge_gradients(x, weights, gradients, d_out),
    }
    return {name: d for name, d in found.items() if d is not None}


def _edge_products(x: Inputs, d_out: Tensor) -> Tensor:
    nodes, heads, channels = x.values.shape
    found = _at_edges(x)
    edges.products[_grid(nodes, heads)](
        x.first_edge, x.edge_kind, x.edge_coefficients, x.edge_values, d_out, found,
        nodes, heads, channels, _factors(x), FACTORS=x.edge_coefficients is not None, **x.sizes(),
    )  # fmt: skip
    return found


def _edge_gradients(
    x: Inputs, weights: Tensor | None, gradients: Tensor | None, d_out: Tensor
) -> dict[str, Tensor]:
    """Returns the gradients of the edge terms from keep_ij α_ij and dx_ij at edges."""
    found = {
        name: torch.zeros_like(given)
        for name, given in (("edge_values", x.edge_values), ("edge_logits", x.edge_logits))
        if given is not None
    }
    mixed = x.edge_coefficients is not None
    if gradients is not None and mixed:  # each edge has its own row
        found["edge_logits"] = torch.empty_like(found["edge_logits"]).index_copy_(
            0, x.edge_kind.long(), gradients.to(found["edge_logits"].dtype)
        )
    if weights is None and (gradients is None or mixed):
        return found
    _, heads, channels = x.values.shape
    count, last = len(x.edge_source), "edge_values" if weights is not None else "edge_logits"
    rows = len(found[last])
    splits = max(1, _PROGRAMS // rows)
    kinds, order = x.edge_kind.sort(stable=True)
    first = torch.searchsorted(
        kinds, torch.arange(rows + 1, device=kinds.device, dtype=kinds.dtype)
    )
    logits = None if mixed else gradients
    d_values = None if weights is None else d_out.new_empty(rows, splits, heads, channels)
    d_logits = None if logits is None else d_out.new_empty(rows, splits, heads)
    edges.sums[(rows, heads, splits)](
        order, first, x.edge_target, x.edge_kind, x.edge_coefficients, weights, logits, d_out,
        d_values, d_logits, count, heads, channels, _factors(x), splits,
        FACTORS=mixed, EDGE_LOGITS=logits is not None, EDGE_VALUES=weights is not None,
        **x.sizes(),
    )  # fmt: skip
    for name, d in (("edge_values", d_values), ("edge_logits", d_logits)):
        if d is not None:
            found[name] = d.sum(1).to(found[name].dtype)
    return found


def _at_edges(x: Inputs) -> Tensor:
    return x.importance.new_empty(len(x.edge_source), x.values.size(1))


def _factors(x: Inputs) -> int:
    return 0 if x.edge_coefficients is None else x.edge_coefficients.size(1)


def _grid(nodes: int, heads: int) -> tuple[int, int]:
    return -(-nodes // BLOCK), heads
