"""Packed arrays → ragged batches: graphs of any size, concatenated without padding."""

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
from eigenformer.data.store import check_mapped

# Up to this mean length, runs are gathered by index; longer runs are copied one by one.
_SHORT_RUN = 256


class GraphDataset(Dataset):
    """A PyTorch dataset of the graphs of an archive and their spectra, with fast batching.

    A batch is copied directly from the memory-mapped arrays into one PyG ``Batch``, without
    creating an object per graph. Its tensors equal those of ``Batch.from_data_list`` on the
    individual graphs. Use ``collate_fn=keep_batch`` in a ``DataLoader`` over this dataset.

    Args:
        archive: The graphs.
        spectra: The spectra of the graphs; None for graphs without spectra.
        split: The split to use: ``train``, ``val`` or ``test`` (default: all graphs).
        indices: The graphs to use, in this order, instead of a split.
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
            raise DataError("the spectra do not belong to the graphs of the archive")
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
        """The number of nodes per graph."""
        return self.archive.num_nodes[self.indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Data:
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph index {index} is out of range for {len(self)} graphs")
        self._check_files()
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
        """Returns a batch; called by ``DataLoader``."""
        return self.batch(indices)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Returns the graphs at these positions of the dataset as one PyG ``Batch``."""
        self._check_files()
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

    def _check_files(self) -> None:
        """Raises an error if a mapped file was truncated: reading it would end the process."""
        self.archive.check_files()
        if self.spectra is not None:
            check_mapped(self.spectra.eigenvalues)
            check_mapped(self.spectra.eigenvectors)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} graphs)"


class _Runs:
    """Runs of consecutive entries, one per graph, that are to be concatenated."""

    def __init__(self, starts: np.ndarray, lengths: np.ndarray) -> None:
        self.starts, self.lengths = starts, lengths
        self._slices: np.ndarray | None = None
        self._index: np.ndarray | None = None

    @classmethod
    def of(cls, offsets: np.ndarray, graphs: np.ndarray) -> _Runs:
        starts = offsets[graphs]
        return cls(starts, offsets[graphs + 1] - starts)

    def slices(self) -> np.ndarray:
        """Returns the start of each run in the result, and the end of the last one."""
        if self._slices is None:
            self._slices = np.zeros(len(self.lengths) + 1, dtype=np.int64)
            np.cumsum(self.lengths, out=self._slices[1:])
        return self._slices

    def take(self, source: np.ndarray) -> np.ndarray:
        """Copies the runs from ``source``."""
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
    """Returns the batch unchanged.

    The ``collate_fn`` of a ``DataLoader`` over a :class:`GraphDataset`.
    """
    return batch
