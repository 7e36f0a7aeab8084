"""Files of embeddings that are not text: Parquet and npz, written in pieces."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.files import temporary_beside
from eigenformer.training.embedding_form import Embedded
from eigenformer.training.output import Output

# In characters. NumPy gives all texts of an array the size of the longest.
_LONGEST_REASON = 200


class _WholeOutput(Output[Embedded]):
    """A file that gets its name when it is complete. What is incomplete is removed."""

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        handle, self._temporary = temporary_beside(out)
        self._stream = os.fdopen(handle, "w+b")

    def append(self, piece: Embedded) -> None:
        self._write(piece)
        self.rows += piece.counts.rows
        self.predicted += piece.counts.predicted

    def _write(self, piece: Embedded) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        os.chmod(self._temporary, 0o644)
        os.replace(self._temporary, self.out)

    def close(self) -> None:
        self._stream.close()
        self._temporary.unlink(missing_ok=True)


class ParquetOutput(_WholeOutput):
    """A Parquet file with the columns of a text file: numbers as float32, null where there is none.

    Args:
        out: The file to write.
        names: The names of the columns: those with cells, with channels, and with the reason.
        width: The number of channels.
    """

    def __init__(self, out: Path, names: list[str], width: int) -> None:
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise ImportError(
                f"{out}: Parquet needs pyarrow: install it with  pip install 'eigenformer[parquet]'"
            ) from None
        super().__init__(out)
        text, last = len(names) - width - 1, len(names) - 1
        types = [arrow.float32() if text <= i < last else arrow.string() for i in range(len(names))]
        # Fields, not a dictionary: an input may have two columns with the same name.
        fields = [arrow.field(*pair) for pair in zip(names, types, strict=True)]
        self._schema: Any = arrow.schema(fields)
        self._writer: Any = parquet.ParquetWriter(self._stream, self._schema)

    def _write(self, piece: Embedded) -> None:
        import pyarrow as arrow

        missing = np.array([bool(reason) for reason in piece.reasons])
        columns: list[Any] = [list(column) for column in zip(*piece.cells, strict=True)]
        arrays = [arrow.array(column, arrow.string()) for column in columns]
        arrays += [arrow.array(channel, mask=missing) for channel in piece.values.T]
        arrays.append(arrow.array([reason or None for reason in piece.reasons], arrow.string()))
        self._writer.write_batch(arrow.record_batch(arrays, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()
        super().finish()


class NpzOutput(_WholeOutput):
    """A file of NumPy arrays, which grows with the number of rows and is not held in memory.

    The arrays are ``embeddings`` ``[rows, d]``, NaN where there is none; ``graph`` ``[rows]``, the
    row of the input, counted from 0; ``node`` ``[rows]`` if there is a row per node, -1 for a graph
    that could not be read; and ``failed`` with ``reason``, the rows of the input without an
    embedding.

    Args:
        out: The file to write.
        width: The number of channels.
        nodes: Whether there is a row per node.
    """

    def __init__(self, out: Path, width: int, nodes: bool) -> None:
        super().__init__(out)
        self._width, self._nodes = width, nodes
        self._columns = {name: _Column(out) for name in ("graph", *(["node"] if nodes else []))}
        self._values = _Column(out)
        self._failed: dict[int, str] = {}

    def _write(self, piece: Embedded) -> None:
        graphs = piece.graphs + self.rows
        self._values.append(piece.values.astype("<f4"))
        self._columns["graph"].append(graphs.astype("<i8"))
        if piece.nodes is not None:
            self._columns["node"].append(piece.nodes.astype("<i8"))
        told = zip(graphs.tolist(), piece.reasons, strict=True)
        self._failed.update({graph: why[:_LONGEST_REASON] for graph, why in told if why})

    def finish(self) -> None:
        with zipfile.ZipFile(self._stream, "w") as archive:
            self._values.copy(archive, "embeddings", "<f4", (self._width,))
            for name, column in self._columns.items():
                column.copy(archive, name, "<i8", ())
            for name, array in (
                ("failed", np.array(list(self._failed), np.int64)),
                ("reason", np.array(list(self._failed.values()), np.str_)),
            ):
                with archive.open(f"{name}.npy", "w") as stream:
                    np.save(stream, array, allow_pickle=False)
        super().finish()

    def close(self) -> None:
        for column in (self._values, *self._columns.values()):
            column.close()
        super().close()


class _Column:
    """Numbers in a temporary file without a name of its own."""

    def __init__(self, out: Path) -> None:
        handle, name = temporary_beside(out)
        self._stream = os.fdopen(handle, "w+b")
        if os.name != "nt":  # where an open file cannot be removed
            name.unlink()
        self._name, self._rows = name, 0

    def append(self, array: np.ndarray) -> None:
        self._stream.write(np.ascontiguousarray(array).data)
        self._rows += len(array)

    def copy(self, archive: zipfile.ZipFile, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Writes the numbers as an array ``[rows, *shape]`` of a file of arrays."""
        header = {"descr": dtype, "fortran_order": False, "shape": (self._rows, *shape)}
        self._stream.seek(0)
        with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            shutil.copyfileobj(self._stream, stream)

    def close(self) -> None:
        self._stream.close()
        self._name.unlink(missing_ok=True)
