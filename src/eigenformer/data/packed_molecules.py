"""Many molecules, one after the other, in memory that does not grow with their graphs."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.data.fields import Field
from eigenformer.data.growing import GrowingRows
from eigenformer.data.molecules import Featurizer, MoleculeGraph


class PackedMolecules:
    """Molecular graphs that are kept in temporary files.

    Args:
        featurizer: What makes the graphs.
        folder: Where the files are (default: the folder for temporary files).
    """

    def __init__(self, featurizer: Featurizer, folder: Path | None = None) -> None:
        self._nodes, self._edges = array("q", [0]), array("q", [0])
        self._x = GrowingRows(np.min_scalar_type(max(featurizer.atom_sizes)), folder)
        self._edge_attr = GrowingRows(np.min_scalar_type(max(featurizer.bond_sizes)), folder)
        self._pairs = GrowingRows(np.dtype(np.int32), folder)
        self._descriptors = GrowingRows(np.dtype(np.float32), folder)
        self._described = False

    def append(self, graph: MoleculeGraph) -> None:
        """Adds a graph."""
        self._nodes.append(self._nodes[-1] + len(graph.x))
        self._edges.append(self._edges[-1] + graph.edge_index.shape[1])
        self._x.append(graph.x)
        self._edge_attr.append(graph.edge_attr)
        self._pairs.append(graph.edge_index.T)
        self._described = bool(len(graph.descriptors))
        self._descriptors.append(graph.descriptors[None])

    def fields(self) -> dict[str, Any]:
        """Returns the offsets, edges and features of all molecules, for an archive."""
        long = np.dtype(np.int64)
        fields = {
            "x": Field("node", self._x.array(), long),
            "edge_attr": Field("edge", self._edge_attr.array(), long),
        }
        if self._described:
            values = self._descriptors.array()
            fields["descriptors"] = Field("graph", values, values.dtype)
        return {
            "node_offsets": np.array(self._nodes),
            "edge_offsets": np.array(self._edges),
            "edge_index": self._pairs.array().T,
            "fields": fields,
        }
