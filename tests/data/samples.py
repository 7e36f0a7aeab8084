"""Small sets of graphs for the tests of the data."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

from eigenformer.data import GraphArchive
from eigenformer.targets import NumberTarget


def random_graph(rng: np.random.Generator, num_nodes: int, num_edges: int) -> Data:
    return Data(
        x=torch.from_numpy(rng.integers(0, 300, (num_nodes, 2))),
        edge_index=torch.from_numpy(rng.integers(0, num_nodes, (2, num_edges))),
        edge_attr=torch.from_numpy(rng.normal(size=(num_edges, 1)).astype(np.float32)),
        y=torch.from_numpy(rng.normal(size=(1, 3)).astype(np.float32)),
    )


def random_graphs(seed: int, count: int, max_nodes: int = 12) -> list[Data]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max_nodes + 1, count)
    return [random_graph(rng, int(n), int(rng.integers(0, 3 * n))) for n in sizes]


def random_archive(seed: int = 0, count: int = 20, max_nodes: int = 12) -> GraphArchive:
    split = np.arange(count, dtype=np.uint8) % 3
    names = [f"graph {i} – é" for i in range(count)]
    return GraphArchive.from_data_list(
        random_graphs(seed, count, max_nodes),
        split=split,
        names=names,
        target=NumberTarget(num_outputs=3, names=("a", "b", "c")),
        meta={"vocabulary": ["x", "y"]},
    )


@st.composite
def archives(draw: st.DrawFn) -> GraphArchive:
    """Archives of every shape: with and without fields, of any level and type."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtypes = st.sampled_from([torch.int64, torch.uint8, torch.int32, torch.float32, torch.float64])
    levels = draw(st.fixed_dictionaries({}, optional=_LEVELS))
    types = {name: draw(dtypes) for name in levels}
    widths = {name: draw(st.sampled_from([(), (1,), (3,), (2, 2)])) for name in levels}
    graphs = []
    for _ in range(draw(st.integers(1, 6))):
        nodes, edges = int(rng.integers(1, 8)), int(rng.integers(0, 12))
        data = Data(edge_index=torch.from_numpy(rng.integers(0, nodes, (2, edges))))
        data.num_nodes = nodes
        for name, level in levels.items():
            rows = {"node": nodes, "edge": edges, "graph": 1}[level]
            high = 2 if types[name] == torch.uint8 else 70_000
            values = torch.from_numpy(rng.integers(0, high, (rows, *widths[name])))
            data[name] = values.to(types[name])
        if "x" in levels:
            del data.num_nodes
        graphs.append(data)
    split = rng.integers(0, 4, len(graphs)).astype(np.uint8)
    split[split == 3] = 255
    return GraphArchive.from_data_list(graphs, split=split, levels=levels)


_LEVELS = {
    "x": st.just("node"),
    "edge_attr": st.just("edge"),
    "y": st.sampled_from(["node", "graph"]),
    "weight": st.sampled_from(["node", "edge", "graph"]),
}


def equal_archives(one: GraphArchive, other: GraphArchive) -> bool:
    """Whether two archives hold the same graphs, down to the type of every attribute."""
    if list(one.fields) != list(other.fields) or (one.names is None) != (other.names is None):
        return False
    arrays = [
        (getattr(one, name), getattr(other, name))
        for name in ("node_offsets", "edge_offsets", "edge_index", "split")
    ]
    for mine, theirs in zip(one.fields.values(), other.fields.values(), strict=True):
        if (mine.level, mine.dtype) != (theirs.level, theirs.dtype):
            return False
        arrays.append((mine.values, theirs.values))
    return (
        all(_equal(a, b) for a, b in arrays)
        and list(one.names or ()) == list(other.names or ())
        and (one.target, one.meta) == (other.target, other.meta)
    )


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    floats = a.dtype.kind == b.dtype.kind == "f"
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=floats)
