"""A PyG batch as plain ragged tensors, checked once: the input of the layers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.spectrum import edges_of, node_degrees
from eigenformer.transfer import on_device

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, eq=False)
class RaggedGraphs:
    """The structure of a batch of graphs: spectra, edges and degrees, without padding.

    Args:
        sizes: Number of nodes per graph.
        num_frequencies: Number of eigenpairs per graph; equal to ``sizes`` for full spectra.
        eigenvalues: ``[Σk]``, graph after graph.
        eigenvectors: ``[Σ n·k]``, the matrices U of all graphs, row by row, graph after graph.
        frequency_weights: ``[Σk]``, 1 for a frequency in use and 0 for one left out
            (default: all in use).
        edge_index: ``[2, M]`` distinct (source, target) pairs.
        edge_slot: The column in ``edge_index`` of each input edge; None if the input has no
            parallel edges, because the columns are then the same.
        degrees: ``[Σn]``, number of distinct neighbours of each node in the undirected graph.
        node_graph: ``[Σn]``, the graph that each node belongs to.
        edge_counts: Number of distinct edges per graph, if known.
    """

    sizes: tuple[int, ...]
    num_frequencies: tuple[int, ...]
    eigenvalues: Tensor
    eigenvectors: Tensor
    edge_index: Tensor
    degrees: Tensor
    node_graph: Tensor
    edge_slot: Tensor | None = None
    frequency_weights: Tensor | None = None
    edge_counts: tuple[int, ...] | None = None

    @classmethod
    def from_data(cls, data: Data, dtype: torch.dtype | None = None) -> RaggedGraphs:
        """Reads and checks a PyG ``Data`` or ``Batch`` with a spectrum.

        A batch that was checked before, see :class:`Checked`, is not checked again.

        Args:
            data: The graphs.
            dtype: The type to compute in (default: the type of the spectrum).
        """
        found = data.get("checked") or Checked.of(data)
        found.check_shapes(data)
        return cls(
            sizes=found.sizes,
            num_frequencies=found.num_frequencies,
            eigenvalues=data.eigenvalues.to(dtype),
            eigenvectors=data.eigenvectors.to(dtype),
            edge_index=edges_of(data).to(found.node_graph.device)
            if found.edge_index is None
            else found.edge_index,
            edge_slot=found.edge_slot,
            degrees=found.degrees,
            node_graph=found.node_graph,
            frequency_weights=_weights(data, data.eigenvalues.to(dtype)),
            edge_counts=found.edge_counts,
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


@dataclass(frozen=True, eq=False)
class Checked:
    """What checking a batch found: sizes as Python numbers, and what follows from the edges.

    PyG moves it to another device with its batch, so that a training step there reads nothing back.

    Args:
        sizes: See :class:`RaggedGraphs`, as for the following.
        num_frequencies: Number of eigenpairs per graph.
        edge_counts: Number of distinct edges per graph.
        edge_index: Distinct edges; None if they are those of the batch.
        edge_slot: The column in ``edge_index`` of each edge of the batch; None likewise.
        degrees: Number of neighbours of each node.
        node_graph: The graph of each node.
        eigenvalues: The eigenvalues, which stay on the CPU: frequencies are sampled there.
        features: Whether a model has checked the features, too.
    """

    sizes: tuple[int, ...]
    num_frequencies: tuple[int, ...]
    edge_counts: tuple[int, ...]
    edge_index: Tensor | None
    edge_slot: Tensor | None
    degrees: Tensor
    node_graph: Tensor
    eigenvalues: np.ndarray
    features: bool = False

    @classmethod
    def of(cls, data: Data) -> Checked:
        """Checks a batch. Raises an error that names the graph if something is wrong."""
        sizes = graph_sizes(data)
        node_graph = graph_of_rows(sizes, _device(data))
        counts = frequency_counts(data, sizes)
        _check_finite(data, sizes, counts)
        edge_index, edge_slot = _distinct(checked_edges(data, node_graph), len(node_graph))
        of_edges = node_graph[edge_index[1]]
        return cls(
            sizes=sizes,
            num_frequencies=counts,
            edge_counts=tuple(of_edges.bincount(minlength=len(sizes)).tolist()),
            edge_index=None if edge_slot is None else edge_index,
            edge_slot=edge_slot,
            degrees=node_degrees(edge_index, len(node_graph)),
            node_graph=node_graph,
            eigenvalues=data.eigenvalues.detach().cpu().numpy(),
        )

    def check_shapes(self, data: Data) -> None:
        """Raises an error if the batch has other shapes than when it was checked."""
        edges = self.edge_counts if self.edge_slot is None else (self.edge_slot.size(0),)
        entries = sum(n * k for n, k in zip(self.sizes, self.num_frequencies, strict=True))
        found = edges_of(data).size(1), data.eigenvalues.numel(), data.eigenvectors.numel()
        if found != (sum(edges), sum(self.num_frequencies), entries):
            raise ValueError(
                "the batch was changed after it was checked: remove its attribute 'checked'"
            )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Checked:
        """Returns the same on another device. Called by PyG."""
        return moved(self, device, non_blocking)

    def pin_memory(self) -> Checked:
        """Returns the same in memory from which copies to a GPU need no waiting. Called by PyG."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self)}
        pinned: dict[str, Any]
        pinned = {n: x.pin_memory() for n, x in tensors.items() if isinstance(x, Tensor)}
        return replace(self, **pinned)


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
    return on_device(torch.arange(len(sizes)).repeat_interleave(counts), device)


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


def _check_finite(data: Data, sizes: tuple[int, ...], frequencies: tuple[int, ...]) -> None:
    for attribute, flat, lengths in (
        ("eigenvalues", data.eigenvalues, frequencies),
        (
            "eigenvectors",
            data.eigenvectors,
            tuple(n * k for n, k in zip(sizes, frequencies, strict=True)),
        ),
    ):
        if not flat.isfinite().all():
            graph = name_graph(~flat.isfinite(), graph_of_rows(lengths, flat.device))
            raise ValueError(f"{graph}: non-finite eigenpairs in '{attribute}'")


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
