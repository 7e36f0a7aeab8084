"""Spectra on their way to disk: appended chunk by chunk, journalled, renamed when complete."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenformer.data.store import replace_folder, seal

if TYPE_CHECKING:
    from eigenformer.spectrum import Spectrum

KIND = "spectrum"
_JOURNAL = "journal.jsonl"
_HEADER = 128


class SpectrumWriter:
    """The unfinished cache: two growing arrays and the journal of what is in them.

    Args:
        folder: Where it lies until it is finished.
    """

    _FILES = ("eigenvalues", "eigenvectors")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: list[int] = []
        self._streams: dict[str, io.BufferedRandom] = {}

    def resume(self) -> int:
        """Keeps the chunks that are whole, drops what follows, and returns their number."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept, lengths = [], dict.fromkeys(self._FILES, _HEADER)
        for record in self._journal():
            if not all(self._is_whole(name, lengths[name], record[name]) for name in self._FILES):
                break
            kept.append(record)
            for name in self._FILES:
                lengths[name] += record[name]["bytes"]
        self.counts = [count for record in kept for count in record["counts"]]
        text = "".join(_sealed(record) + "\n" for record in kept)
        (self.folder / _JOURNAL).write_text(text, "utf-8")
        for name in self._FILES:
            file = self._file(name)
            if not file.exists() or not kept:
                file.write_bytes(npy_header(0))
            with file.open("r+b") as stream:
                stream.truncate(lengths[name])
        return len(kept)

    def append(self, spectra: list[Spectrum]) -> None:
        """Adds one chunk, then enters it into the journal."""
        values = np.concatenate([s.eigenvalues.numpy() for s in spectra])
        vectors = np.concatenate([s.eigenvectors.numpy().reshape(-1) for s in spectra])
        record: dict[str, Any] = {"counts": [len(s.eigenvalues) for s in spectra]}
        for name, array in zip(self._FILES, (values, vectors), strict=True):
            data = array.astype("<f4").tobytes()
            self._streams[name].write(data)
            self._streams[name].flush()
            record[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        with (self.folder / _JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(_sealed(record) + "\n")
        self.counts += record["counts"]

    def finish(self, values: int, vectors: int, meta: dict[str, Any], final: Path) -> None:
        """Completes the arrays' headers and gives the folder its final name."""
        for name, length in zip(self._FILES, (values, vectors), strict=True):
            with self._file(name).open("r+b") as stream:
                stream.write(npy_header(length))
        (self.folder / _JOURNAL).unlink()
        seal(self.folder, KIND, meta)
        replace_folder(self.folder, final)

    def __enter__(self) -> SpectrumWriter:
        self._streams = {name: self._file(name).open("r+b") for name in self._FILES}
        for stream in self._streams.values():
            stream.seek(0, io.SEEK_END)
        return self

    def __exit__(self, *error: object) -> None:
        for stream in self._streams.values():
            stream.close()

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def _journal(self) -> list[dict[str, Any]]:
        records = []
        try:
            for line in (self.folder / _JOURNAL).read_text("utf-8").splitlines():
                record = json.loads(line)
                if line != _sealed({k: v for k, v in record.items() if k != "line"}):
                    break
                records.append({k: v for k, v in record.items() if k != "line"})
        except (OSError, ValueError, AttributeError):  # no journal, or half a line, or no line
            pass
        return records

    def _is_whole(self, name: str, start: int, record: dict[str, Any]) -> bool:
        try:
            with self._file(name).open("rb") as stream:
                stream.seek(start)
                data = stream.read(record["bytes"])
        except OSError:
            return False
        return hashlib.sha256(data).hexdigest() == record["sha256"]


def _sealed(record: dict[str, Any]) -> str:
    """A line of the journal, with a checksum of itself."""
    text = json.dumps(record)
    return json.dumps({**record, "line": hashlib.sha256(text.encode()).hexdigest()})


def npy_header(length: int) -> bytes:
    """The header of a float32 ``.npy`` file, always of the same size, so that it can grow."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({length},), }}"
    body = text.encode("latin1").ljust(_HEADER - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body
