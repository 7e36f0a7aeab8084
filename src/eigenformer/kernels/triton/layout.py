"""Where the graphs of a batch lie, as the kernels read it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from eigenformer.ragged import RaggedGraphs
from eigenformer.transfer import on_device

BLOCK = 32
"""Rows and columns of a tile."""
MOST_CHANNELS = 32
"""The widest heads that fit the registers of a program beside its tiles."""


class Layout(NamedTuple):
    """Offsets of graphs, blocks and edges. All are on the device of the batch.

    Attributes:
        blocks: ``[blocks, 2]``, the graph and the first row of each block of rows.
        first_node: ``[graphs + 1]``, where the nodes of each graph start.
        first_frequency: ``[graphs + 1]``, where its frequencies start.
        first_entry: ``[graphs]``, where its matrix U starts.
        first_part: ``[blocks]``, where the sums of each block into φ₂'s values start.
        first_part_of_graph: ``[graphs]``, the same for the first block of each graph.
        node_graph: ``[Σn]``, the graph of each node.
        first_edge: ``[Σn + 1]``, where the edges into each node start.
        edge_source: ``[M]``, sources of the edges, counted within their graphs, sorted by target,
            then by source.
        edge_target: ``[M]``, targets of the edges among all nodes.
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


def make_layout(graphs: RaggedGraphs) -> tuple[Layout, Tensor]:
    """Returns the layout of a batch, and the order of its edges there.

    Sizes are Python numbers and nothing is read back from the device.
    """
    device, sizes, counts = graphs.eigenvectors.device, graphs.sizes, graphs.num_frequencies
    blocks = [(g, row) for g, n in enumerate(sizes) for row in range(0, n, BLOCK)]
    parts = _first([counts[g] for g, _ in blocks])
    of_graph = [part for part, (_, row) in zip(parts, blocks, strict=False) if row == 0]
    entries = _first([n * k for n, k in zip(sizes, counts, strict=True)])
    source, target = graphs.edge_index
    order = (target * graphs.num_nodes + source).argsort()
    first_node = on_device(_first(sizes), device, torch.int32)
    local = source - first_node[graphs.node_graph[source]]
    nodes = torch.arange(graphs.num_nodes + 1, device=device)
    layout = Layout(
        blocks=on_device(blocks, device, torch.int32),
        first_node=first_node,
        first_frequency=on_device(_first(counts), device, torch.int32),
        first_entry=on_device(entries[:-1], device, torch.int64),
        first_part=on_device(parts[:-1], device, torch.int64),
        first_part_of_graph=on_device(of_graph, device, torch.int64),
        node_graph=graphs.node_graph.int(),
        first_edge=torch.searchsorted(target[order], nodes).int(),
        edge_source=local[order].int(),
        edge_target=target[order].int(),
    )
    return layout, order


def count_parts(graphs: RaggedGraphs) -> int:
    """Returns the number of sums of all blocks into φ₂'s values, for each head."""
    pairs = zip(graphs.sizes, graphs.num_frequencies, strict=True)
    return sum(-(-n // BLOCK) * k for n, k in pairs)


def _first(counts: Sequence[int]) -> list[int]:
    """Returns where each item starts, followed by where the last one ends."""
    return [0, *accumulate(counts)]
