"""Packed arrays → ragged batches: graphs of any size side by side, without padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset
from torch_geometric.data import Batch, Data

from eigenformer.data.archive import GraphArchive
from eigenformer.data.checks import checked_indices
from eigenformer.data.errors import DataError
from eigenformer.data.spectra import Spectra

# Shorter runs are gathered by index, longer ones are copied one by one.
_SHORT_RUN = 256


class GraphDataset(Dataset):
    """Graphs of an archive with their spectra: a PyTorch dataset whose batches cost little.

    A batch is copied straight from the mapped arrays into one PyG ``Batch``; no graph becomes
    an object of its own on the way. Its tensors equal those that ``Batch.from_data_list`` makes of
    the graphs one by one. A ``DataLoader`` over it takes ``collate_fn=keep_batch``.

    Args:
        archive: The graphs.
        spectra: Their spectra; None for graphs without.
        split: Which part to take: ``train``, ``val`` or ``test`` (default: all).
        indices: Which graphs to take, in this order, instead of a split.
    """

    def __init__(
        self,
        archive: GraphArchive,
        spectra: Spectra | None = None,
        split: str | None = None,
        indices: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        if split is not None and indices is not None:
            raise DataError("give a split or indices, not both")
        if spectra is not None and spectra.structure not in (None, archive.structure):
            raise DataError("the spectra are of other graphs than the archive's")
        self.archive = archive
        self.spectra = spectra
        if split is not None:
            self.indices = archive.indices(split)
        elif indices is not None:
            self.indices = checked_indices(indices, len(archive))
        else:
            self.indices = np.arange(len(archive))

    @property
    def num_nodes(self) -> np.ndarray:
        """Nodes of each graph."""
        return self.archive.num_nodes[self.indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Data:
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        graph = int(self.indices[index])
        data = self.archive.graph(graph)
        if self.spectra is not None:
            values, vectors = self.spectra.graph(graph, int(self.archive.num_nodes[graph]))
            data.eigenvalues = torch.from_numpy(values.copy())
            data.eigenvectors = torch.from_numpy(vectors.flatten())
            if self.spectra.num_frequencies is not None:
                data.num_frequencies = int(self.spectra.counts[graph])
        return data

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """What a ``DataLoader`` calls for a batch."""
        return self.batch(indices)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """The graphs at these places as one PyG ``Batch``."""
        archive, spectra = self.archive, self.spectra
        graphs = self.indices[checked_indices(indices, len(self))]
        nodes = _Runs.of(archive.node_offsets, graphs)
        edges = _Runs.of(archive.edge_offsets, graphs)
        ones = _Runs(graphs, np.ones(len(graphs), np.int64))
        ptr = nodes.slices()
        batch = Batch(
            batch=torch.from_numpy(np.repeat(np.arange(len(graphs)), nodes.lengths)),
            ptr=torch.from_numpy(ptr),
        )
        shift = np.repeat(ptr[:-1], edges.lengths)
        edge_index = np.empty((2, len(shift)), dtype=np.int64)
        for row, local in zip(edge_index, archive.edge_index, strict=True):
            np.add(edges.take(local), shift, out=row)
        batch.edge_index = torch.from_numpy(edge_index)
        levels = {"node": nodes, "edge": edges, "graph": ones}
        for name, field in archive.fields.items():
            values = levels[field.level].take(field.values).astype(field.dtype, copy=False)
            batch[name] = values.tolist() if field.is_text else torch.from_numpy(values)
        if not archive.tells_sizes:
            batch.num_nodes = int(ptr[-1])
        if spectra is not None:
            counts = spectra.counts[graphs].astype(np.int64)
            value_runs = _Runs(spectra.value_starts[graphs], counts)
            vector_runs = _Runs(spectra.vector_starts[graphs], counts * nodes.lengths)
            batch.eigenvalues = torch.from_numpy(value_runs.take(spectra.eigenvalues))
            batch.eigenvectors = torch.from_numpy(vector_runs.take(spectra.eigenvectors))
            if spectra.num_frequencies is not None:
                batch.num_frequencies = torch.from_numpy(counts)
        return batch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} graphs)"


class _Runs:
    """Runs of consecutive entries, one per graph, to be laid end to end."""

    def __init__(self, starts: np.ndarray, lengths: np.ndarray) -> None:
        self.starts, self.lengths = starts, lengths
        self._slices: np.ndarray | None = None
        self._index: np.ndarray | None = None

    @classmethod
    def of(cls, offsets: np.ndarray, graphs: np.ndarray) -> _Runs:
        starts = offsets[graphs]
        return cls(starts, offsets[graphs + 1] - starts)

    def slices(self) -> np.ndarray:
        """Where each run begins in the result, and where the last one ends."""
        if self._slices is None:
            self._slices = np.zeros(len(self.lengths) + 1, dtype=np.int64)
            np.cumsum(self.lengths, out=self._slices[1:])
        return self._slices

    def take(self, source: np.ndarray) -> np.ndarray:
        """Copies the runs out of ``source``."""
        slices = self.slices()
        if slices[-1] > _SHORT_RUN * len(self.lengths):
            ends = self.starts + self.lengths
            pairs = zip(self.starts.tolist(), ends.tolist(), strict=True)
            return np.concatenate([source[start:end] for start, end in pairs])
        if self._index is None:
            shift = np.repeat(self.starts - slices[:-1], self.lengths)
            self._index = shift + np.arange(slices[-1])
        return source[self._index]


def keep_batch(batch: Batch) -> Batch:
    """What a ``DataLoader`` does to what a :class:`GraphDataset` gives: nothing."""
    return batch
