"""A PyG batch as plain ragged tensors, checked once: the input of the layers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.spectrum import edges_of, node_degrees

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, eq=False)
class RaggedGraphs:
    """The structure of a batch of graphs: spectra, edges and degrees, without padding.

    Args:
        sizes: Number of nodes per graph.
        frequencies: Number of eigenpairs per graph; equal to ``sizes`` for full spectra.
        eigenvalues: ``[Σk]``, graph after graph.
        eigenvectors: ``[Σ n·k]``, the matrices U of all graphs, row by row, graph after graph.
        frequency_weights: ``[Σk]``, 1 for a frequency in use and 0 for one left out
            (default: all in use).
        edge_index: ``[2, M]`` distinct (source, target) pairs.
        edge_slot: The column in ``edge_index`` of each input edge; None if the input has no
            parallel edges, because the columns are then the same.
        degrees: ``[Σn]``, number of distinct neighbours of each node in the undirected graph.
        node_graph: ``[Σn]``, the graph that each node belongs to.
    """

    sizes: tuple[int, ...]
    frequencies: tuple[int, ...]
    eigenvalues: Tensor
    eigenvectors: Tensor
    edge_index: Tensor
    degrees: Tensor
    node_graph: Tensor
    edge_slot: Tensor | None = None
    frequency_weights: Tensor | None = None

    @classmethod
    def from_data(cls, data: Data, dtype: torch.dtype | None = None) -> RaggedGraphs:
        """Reads and checks a PyG ``Data`` or ``Batch`` with a spectrum.

        ``dtype`` is the type to compute in (default: the type of the spectrum).
        """
        sizes = graph_sizes(data)
        node_graph = graph_of_rows(sizes, _device(data))
        values, vectors, frequencies = _spectrum(data, sizes, dtype)
        edge_index, edge_slot = _distinct(checked_edges(data, node_graph), len(node_graph))
        return cls(
            sizes=sizes,
            frequencies=frequencies,
            eigenvalues=values,
            eigenvectors=vectors,
            edge_index=edge_index,
            edge_slot=edge_slot,
            degrees=node_degrees(edge_index, len(node_graph)),
            node_graph=node_graph,
            frequency_weights=_weights(data, values),
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> RaggedGraphs:
        """Returns the same graphs on another device."""
        return moved(self, device, non_blocking)

    @property
    def num_graphs(self) -> int:
        return len(self.sizes)

    @property
    def num_nodes(self) -> int:
        return self.node_graph.size(0)

    @property
    def num_edges(self) -> int:
        """The number of input edges, including every parallel edge."""
        return self.edge_index.size(1) if self.edge_slot is None else self.edge_slot.size(0)

    def sum_parallel(self, edge_attr: Tensor) -> Tensor:
        """Sums the encoded features of parallel edges, to one row per distinct edge."""
        if self.edge_slot is None:
            return edge_attr
        out = edge_attr.new_zeros(self.edge_index.size(1), *edge_attr.shape[1:])
        return out.index_add(0, self.edge_slot, edge_attr)


T = TypeVar("T", bound="DataclassInstance")


def moved(x: T, device: torch.device | str, non_blocking: bool = False) -> T:
    """Returns a copy of a dataclass with all its tensors on another device."""
    tensors = {f.name: getattr(x, f.name) for f in fields(x)}
    return replace(
        x,
        **{
            name: value.to(device, non_blocking=non_blocking)
            for name, value in tensors.items()
            if isinstance(value, Tensor)
        },
    )


def name_graph(rows: Tensor, graph_of_row: Tensor) -> str:
    """Returns the name of the graph of the first marked row, for an error message."""
    return f"graph {int(graph_of_row[int(rows.nonzero()[0, 0])])} of the batch"


def graph_of_rows(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Returns the graph of each row, ``[Σ sizes]``, for consecutive graphs of these sizes."""
    counts = torch.tensor(sizes, dtype=torch.long)
    return torch.arange(len(sizes)).repeat_interleave(counts).to(device)


def _device(data: Data) -> torch.device:
    for value in (data.x, data.edge_index, data.get("eigenvalues")):
        if value is not None:
            return value.device
    return torch.device("cpu")


def graph_of_nodes(data: Data) -> tuple[Tensor, int]:
    """Returns the graph of each node, ``[Σn]``, and the number of graphs."""
    sizes = graph_sizes(data)
    return graph_of_rows(sizes, _device(data)), len(sizes)


def graph_sizes(data: Data) -> tuple[int, ...]:
    """Returns the number of nodes per graph. Raises an error if a graph has no nodes."""
    if not isinstance(data, Data):
        raise TypeError(f"expected a PyG Data or Batch, got a {type(data).__name__}")
    ptr, batch = data.get("ptr"), data.get("batch")
    if ptr is not None:
        sizes = ptr.diff().tolist()
    elif batch is not None:
        if (batch.diff() < 0).any():
            raise ValueError("batch: nodes must be sorted by graph")
        sizes = batch.bincount().tolist()
    else:
        sizes = [data.num_nodes or 0]
    if not sizes:
        raise ValueError("the batch contains no graphs")
    if 0 in sizes:
        raise ValueError(f"graph {sizes.index(0)} of the batch has no nodes")
    return tuple(sizes)


def frequency_counts(data: Data, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the number of eigenpairs per graph. Raises an error if the spectra do not fit."""
    for attribute in ("eigenvalues", "eigenvectors"):
        if data.get(attribute) is None:
            raise ValueError(
                f"the graphs have no '{attribute}': apply eigenformer.LaplacianSpectrum() to every "
                f"graph, before batching"
            )
    counts = data.get("num_frequencies")
    frequencies = sizes if counts is None else tuple(torch.as_tensor(counts).view(-1).tolist())
    if len(frequencies) != len(sizes):
        raise ValueError(f"num_frequencies: {len(frequencies)} values for {len(sizes)} graphs")
    values, vectors = data.eigenvalues, data.eigenvectors
    expected = (sum(frequencies),), (sum(n * k for n, k in zip(sizes, frequencies, strict=True)),)
    if (values.shape, vectors.shape) != expected:
        raise ValueError(
            f"eigenvalues, eigenvectors: shapes {tuple(values.shape)} and {tuple(vectors.shape)} "
            f"do not match the graphs' sizes, which require {expected[0]} and {expected[1]}; apply "
            f"LaplacianSpectrum() to every graph, after anything that changes it, before batching"
        )
    return frequencies


def _weights(data: Data, values: Tensor) -> Tensor | None:
    weights = data.get("frequency_weights")
    if weights is not None and weights.shape != values.shape:
        raise ValueError(
            f"frequency_weights: shape {tuple(weights.shape)}, expected one for each of "
            f"{len(values)} frequencies"
        )
    return None if weights is None else weights.to(values)


def _spectrum(
    data: Data, sizes: tuple[int, ...], dtype: torch.dtype | None
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    frequencies = frequency_counts(data, sizes)
    values, vectors = data.eigenvalues, data.eigenvectors
    for attribute, flat, lengths in (
        ("eigenvalues", values, frequencies),
        ("eigenvectors", vectors, tuple(n * k for n, k in zip(sizes, frequencies, strict=True))),
    ):
        if not flat.isfinite().all():
            graph = name_graph(~flat.isfinite(), graph_of_rows(lengths, flat.device))
            raise ValueError(f"{graph}: non-finite eigenpairs in '{attribute}'")
    return values.to(dtype), vectors.to(dtype), frequencies


def checked_edges(data: Data, node_graph: Tensor) -> Tensor:
    """Returns all input edges, ``[2, M]``. Raises an error if an edge is invalid."""
    edge_index = edges_of(data).to(node_graph.device)
    outside = ((edge_index < 0) | (edge_index >= len(node_graph))).any(0)
    if outside.any():
        column = int(outside.nonzero()[0, 0])
        raise ValueError(
            f"edge_index: edge {edge_index[:, column].tolist()} (column {column}) refers to a node "
            f"that does not exist; the batch has {len(node_graph)} nodes"
        )
    source, target = node_graph[edge_index]
    if (source != target).any():
        raise ValueError(
            f"{name_graph(source != target, source)}: edge_index connects it to another graph"
        )
    return edge_index


def _distinct(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    keys, slot = (edge_index[0] * num_nodes + edge_index[1]).unique(return_inverse=True)
    if len(keys) == edge_index.size(1):
        return edge_index, None
    return torch.stack([keys // num_nodes, keys % num_nodes]), slot
