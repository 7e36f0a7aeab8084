"""Graphs to test on."""

from __future__ import annotations

import networkx as nx
import torch
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from eigenformer import EigenformerConfig, LaplacianSpectrum
from eigenformer.config import EmbeddingSpec, load_preset, presets
from eigenformer.kernels import AttentionKernel, make_kernel
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

NODE_TYPES, EDGE_TYPES = 22, 4
EIGENFORMERS = [name for name in presets() if load_preset(name).model.kind == "eigenformer"]
"""The presets that are Eigenformers."""


def graph(num_nodes: int, edges: list[tuple[int, int]], dtype: torch.dtype = torch.float32) -> Data:
    """A graph with ZINC-like features and its spectrum; the edges are taken as they are."""
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).T.contiguous()
    data = Data(
        x=torch.randint(NODE_TYPES, (num_nodes, 1)),
        edge_index=edge_index,
        edge_attr=torch.randint(1, EDGE_TYPES, (edge_index.size(1),)),
    )
    return LaplacianSpectrum(dtype=dtype)(data)


def kernel_of(data: Data, backend: Backend = "auto") -> AttentionKernel:
    """The kernel of a graph or a batch."""
    return make_kernel(RaggedGraphs.from_data(data), backend)


def from_networkx(g: nx.Graph, dtype: torch.dtype = torch.float32) -> Data:
    """Both directions of every edge, as PyG has them."""
    g = nx.convert_node_labels_to_integers(g)
    return graph(len(g), [*g.edges, *((v, u) for u, v in g.edges if u != v)], dtype)


def random_graph(num_nodes: int, dtype: torch.dtype = torch.float32) -> Data:
    """A directed random graph with about two edges per node, seeded by torch."""
    pairs = torch.randint(num_nodes, (2 * num_nodes, 2)).unique(dim=0)
    return graph(num_nodes, [tuple(p) for p in pairs.tolist()], dtype)


def random_batch(sizes: list[int], dtype: torch.dtype = torch.float32) -> Batch:
    return Batch.from_data_list([random_graph(n, dtype) for n in sizes])


def named_graphs(dtype: torch.dtype = torch.float32) -> dict[str, Data]:
    """Small graphs with everything that can be special about a graph."""
    triangle = [(0, 1), (1, 2), (2, 0)]
    both = [*triangle, *((v, u) for u, v in triangle)]
    return {
        "one node": graph(1, [], dtype),
        "one node with a loop": graph(1, [(0, 0)], dtype),
        "no edges": graph(3, [], dtype),
        "isolated node": graph(4, both, dtype),
        "disconnected": graph(6, [*both, (3, 4), (4, 3), (4, 5), (5, 4)], dtype),
        "self-loops": graph(3, [*both, (0, 0), (2, 2)], dtype),
        "multi-edges": graph(3, [*both, *both, (0, 1)], dtype),
        "directed": graph(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)], dtype),
        "complete": from_networkx(nx.complete_graph(9), dtype),
        "cycle": from_networkx(nx.cycle_graph(12), dtype),
        "hypercube": from_networkx(nx.hypercube_graph(4), dtype),
        "two equal cycles": from_networkx(nx.disjoint_union_all([nx.cycle_graph(6)] * 2), dtype),
        "large": random_graph(70, dtype),
    }


def small_config(**changes: object) -> EigenformerConfig:
    """A small model for :func:`graph`'s features."""
    settings = {
        "node_encoder": EmbeddingSpec(NODE_TYPES, width=8),
        "edge_encoder": EmbeddingSpec(EDGE_TYPES, width=8, no_edge_type=0),
        "layers": 2,
        "heads": 4,
        "hidden_dim": 16,
        "phi_width": 6,
        "pooling": "sum",
    }
    return EigenformerConfig(**{**settings, **changes})  # type: ignore[arg-type]


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 12) -> tuple[int, list[tuple[int, int]]]:
    """Any multigraph with loops: ``(num_nodes, edges)``."""
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    return n, draw(st.lists(st.tuples(node, node), max_size=3 * n))


def dense_adjacency(data: Data) -> Tensor:
    """The undirected simple graph as a matrix, the slow way."""
    adjacency = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    for u, v in data.edge_index.T.tolist():
        if u != v:
            adjacency[u, v] = adjacency[v, u] = 1.0
    return adjacency
