"""The official files of "Benchmarking Graph Neural Networks", as used by PyG's dataset class."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.data.packed import open_member
from eigenformer.data.workspace import RawFile
from eigenformer.limits import DEFAULT_LIMITS, Limits

_ADDRESS = "https://data.pyg.org/datasets/benchmarking-gnns"


def benchmark_file(name: str) -> RawFile:
    """Returns the official file of ``mnist``, ``cifar10``, ``pattern`` or ``cluster``."""
    return RawFile(f"{name.upper()}_v2.zip", f"{_ADDRESS}/{name.upper()}_v2.zip")


def read_benchmark(
    name: str, file: Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Reads all graphs as dicts of arrays, and the split of each graph.

    The file holds one list of dicts per split.
    """
    from eigenformer.data.unpickle import load_arrays

    member = f"{name.upper()}_v2.pt"
    with zipfile.ZipFile(file) as archive, open_member(archive, member, limits) as stream:
        splits = load_arrays(stream, f"{file}/{member}", limits)
    graphs = [
        {key: np.asarray(value) for key, value in graph.items()}
        for split in splits
        for graph in split
    ]
    return graphs, np.repeat(np.arange(len(splits), dtype=np.uint8), [len(s) for s in splits])


def packed_structure(graphs: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Returns the offsets and edges of an archive of these graphs."""
    return {
        "node_offsets": np.cumsum([0, *(len(graph["x"]) for graph in graphs)]),
        "edge_offsets": np.cumsum([0, *(graph["edge_index"].shape[1] for graph in graphs)]),
        "edge_index": np.concatenate([graph["edge_index"] for graph in graphs], axis=1),
    }
