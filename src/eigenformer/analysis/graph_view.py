"""One graph with its spectrum and drawing, from a SMILES or from any set of graphs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch_geometric.data import Data

from eigenformer.analysis.drawing import (
    Drawing,
    draw_features,
    draw_graph,
    draw_smiles,
    draw_superpixels,
)
from eigenformer.config import ReadOptions
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.listing import find_archive
from eigenformer.data.molecules import MoleculeError, from_smiles
from eigenformer.data.reading import read_own, suited
from eigenformer.data.workspace import Workspace
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.spectrum import LaplacianSpectrum

DEFAULT_FEATURIZER = "molecule"


@dataclass(frozen=True, eq=False)
class GraphView:
    """A graph with its spectrum, ready for a model, and its drawing.

    Args:
        name: The name of the graph.
        data: Features, edges and spectrum, as a model expects them.
        drawing: The drawing of the graph.
    """

    name: str
    data: Data
    drawing: Drawing

    @property
    def eigenvalues(self) -> np.ndarray:
        """``[k]``, ascending."""
        return self.data.eigenvalues.numpy()

    @property
    def eigenvectors(self) -> np.ndarray:
        """``[n, k]``, one column per eigenvalue."""
        return self.data.eigenvectors.view(len(self.drawing), -1).numpy()


def view_molecule(
    smiles: str,
    featurizer: str = DEFAULT_FEATURIZER,
    num_frequencies: int | None = None,
    descriptors: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> GraphView:
    """Returns the graph of a SMILES. The arguments are those of :func:`from_smiles`."""
    data = from_smiles(smiles, featurizer, num_frequencies, limits, descriptors)
    return GraphView(smiles, data, draw_smiles(smiles, limits))


def view_graph(archive: GraphArchive, index: int, num_frequencies: int | None = None) -> GraphView:
    """Returns one graph of an archive."""
    if not 0 <= index < len(archive):
        raise DataError(f"graph {index}: the data has {len(archive)} graphs, counted from 0")
    data = archive.graph(index)
    features = archive.meta.get("featurizer")
    edge_index = data.edge_index.numpy()
    name = f"graph {index}" if archive.names is None else archive.names[index]
    if features == "superpixels":
        drawing = draw_superpixels(edge_index, data.x.numpy())
    elif features is None:
        drawing = draw_graph(edge_index, data.num_nodes)
    else:
        drawing = draw_features(edge_index, data.x.numpy(), data.edge_attr.numpy(), features)
    return GraphView(name, LaplacianSpectrum(num_frequencies)(data), drawing)


def find_graph(
    source: str,
    index: int | None = None,
    featurizer: str = DEFAULT_FEATURIZER,
    num_frequencies: int | None = None,
    undirected: bool = False,
    workspace: Workspace | None = None,
    descriptors: tuple[str, ...] = (),
) -> GraphView:
    """Finds a graph from what a user writes on the command line.

    Args:
        source: A path to graphs in any form, the name of a set in the cache, or a SMILES.
        index: Which graph at the path or of the set (default: the first).
        featurizer: How a SMILES becomes a graph.
        num_frequencies: The number of frequencies to keep (default: all).
        undirected: For plain tables: each edge is listed once and goes both ways.
        workspace: Where the cache is; None to use no cache.
        descriptors: Descriptors of molecules.
    """
    path = Path(source)
    if workspace is not None and (source in BENCHMARKS or _is_cached(source, workspace)):
        archive = GraphArchive.open(find_archive(source, workspace))
        view = view_graph(archive, index or 0, num_frequencies)
        return replace(view, name=f"graph {index or 0} of {source}")
    if os.path.exists(source):  # not Path.exists, because a SMILES may be too long for a path
        given = ReadOptions(featurizer=featurizer, undirected=undirected, descriptors=descriptors)
        options = suited(given, path)
        limits = DEFAULT_LIMITS if workspace is None else workspace.limits
        archive = read_own(path, options, limits=limits).archive
        return view_graph(archive, index or 0, num_frequencies)
    if path.suffix and len(path.suffix) < 9 and path.suffix[1:].isalpha() and "/" in source:
        raise DataError(Problem(source, "there is no such file or folder"))
    if index is not None:
        raise DataError(f"'{source}': a SMILES is one graph; only files and datasets take an index")
    try:
        return view_molecule(source, featurizer, num_frequencies, descriptors)
    except MoleculeError as error:
        names = ", ".join(BENCHMARKS)
        raise DataError(f"{error}, and not a path or the name of a dataset ({names})") from None


def _is_cached(name: str, workspace: Workspace) -> bool:
    return "/" not in name and is_archive(workspace.cache_dir / name)
