"""One graph to look at: from a SMILES, or from any set of graphs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from eigenformer.analysis.drawing import (
    Drawing,
    draw_features,
    draw_graph,
    draw_smiles,
    draw_superpixels,
)
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.listing import find_archive
from eigenformer.data.molecules import MoleculeError, featurizer
from eigenformer.data.own import OwnData
from eigenformer.data.reading import read_own, suited
from eigenformer.data.workspace import Sources
from eigenformer.spectrum import LaplacianSpectrum

DEFAULT_FEATURIZER = "ogb"


@dataclass(frozen=True, eq=False)
class Subject:
    """A graph with its spectrum, ready for a model, and how to draw it.

    Args:
        name: What to call it.
        data: Features, edges and spectrum, as a model takes them.
        drawing: Its picture.
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
        """``[n, k]``, one column for each eigenvalue."""
        return self.data.eigenvectors.view(len(self.drawing), -1).numpy()


def molecule(smiles: str, features: str = DEFAULT_FEATURIZER, k: int | None = None) -> Subject:
    """The graph of a SMILES.

    Args:
        smiles: Any that RDKit accepts.
        features: The featuriser of the model it is meant for.
        k: How many frequencies (default: all).
    """
    graph = featurizer(features)(smiles)
    data = Data(
        x=torch.from_numpy(graph.x),
        edge_index=torch.from_numpy(graph.edge_index),
        edge_attr=torch.from_numpy(graph.edge_attr),
    )
    return Subject(smiles, LaplacianSpectrum(k)(data), draw_smiles(smiles))


def graph_of(archive: GraphArchive, index: int, k: int | None = None) -> Subject:
    """One graph of a set."""
    if not 0 <= index < len(archive):
        raise DataError(f"graph {index}: there are {len(archive)}, counted from 0")
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
    return Subject(name, LaplacianSpectrum(k)(data), drawing)


def find_subject(
    source: str,
    index: int | None = None,
    features: str = DEFAULT_FEATURIZER,
    k: int | None = None,
    undirected: bool = False,
    sources: Sources | None = None,
) -> Subject:
    """A graph by what a user writes on a command line.

    Args:
        source: A path to graphs in any form, the name of a set in the cache, or a SMILES.
        index: Which graph of those at the path or of that name (default: the first).
        features: How a SMILES becomes a graph.
        k: How many frequencies (default: all).
        undirected: For plain tables: each edge is listed once and goes both ways.
        sources: Where the cache is; None to know of none.
    """
    path = Path(source)
    if sources is not None and (source in BENCHMARKS or _is_cached(source, sources)):
        subject = graph_of(GraphArchive.open(find_archive(source, sources)), index or 0, k)
        return replace(subject, name=f"graph {index or 0} of {source}")
    if os.path.exists(source):  # and not Path.exists: a SMILES may be too long for a path
        options = suited(OwnData(featurizer=features, undirected=undirected), path)
        return graph_of(read_own(path, options).archive, index or 0, k)
    if path.suffix and len(path.suffix) < 9 and path.suffix[1:].isalpha() and "/" in source:
        raise DataError(Problem(source, "there is no such file or folder"))
    if index is not None:
        raise DataError(f"'{source}': one molecule; which graph to take is only said of a file")
    try:
        return molecule(source, features, k)
    except MoleculeError as error:
        names = ", ".join(BENCHMARKS)
        raise DataError(f"{error}; nor is it a path, or a dataset's name ({names})") from None


def _is_cached(name: str, sources: Sources) -> bool:
    return "/" not in name and is_archive(sources.cache_dir / name)
