"""A long output, written in pieces: complete under its own name, or marked as partial."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import BinaryIO

from eigenformer.config.json_text import parse_json
from eigenformer.files import remove_leftovers_of, write_atomic

_BLOCK = 1 << 20


class PartialFile:
    """An output that can be continued after the process was killed at any moment.

    Until it is complete, the output is called ``NAME.partial``. The file ``NAME.partial.json`` says
    how much of it is valid, with a checksum that also covers the key. Only one process can write
    it.

    Args:
        out: The file to write.
        key: Identifies the work. An output of other work, or one that was altered, is not
            continued, but written anew.

    Attributes:
        rows: The number of rows that are complete.
        predicted: How many of them have a prediction.
    """

    def __init__(self, out: Path, key: str) -> None:
        self.out, self._key = out, key
        self.partial = out.with_name(f"{out.name}.partial")
        self._progress = out.with_name(f"{out.name}.partial.json")
        self._stream = _open_locked(self.partial)
        remove_leftovers_of(self._progress)
        self.rows = self.predicted = 0
        self._content = hashlib.sha256()
        size = self._continue()
        self._stream.truncate(size)
        self._stream.seek(size)

    def append(self, data: bytes, rows: int, predicted: int) -> None:
        """Adds complete rows."""
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._stream.write(rest) :]
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.partial)) from error
        self._content.update(data)
        self.rows += rows
        self.predicted += predicted
        known = {"rows": self.rows, "predicted": self.predicted, "bytes": self._stream.tell()}
        seal = _seal(self._content, self._key, self.rows, self.predicted)
        write_atomic(self._progress, json.dumps({**known, "sha256": seal}).encode())

    def finish(self) -> None:
        """Gives the complete output its name."""
        if os.name == "nt":  # which cannot rename an open file
            self._stream.close()
        os.replace(self.partial, self.out)  # still locked
        self._progress.unlink(missing_ok=True)
        self._stream.close()

    def close(self) -> None:
        """Stops writing. The output stays partial unless it is finished."""
        self._stream.close()

    def _continue(self) -> int:
        """Takes over what is known of the rows that are there. Returns their size in bytes."""
        try:
            known = parse_json(self._progress.read_text("utf-8"))
            size, rows, predicted = (known[name] for name in ("bytes", "rows", "predicted"))
            seal = known["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        if any(type(number) is not int for number in (size, rows, predicted)) or rows < 1:
            return 0  # without rows, the header is written again
        content, rest = hashlib.sha256(), size
        while rest > 0 and (block := self._stream.read(min(rest, _BLOCK))):
            content.update(block)
            rest -= len(block)
        if rest or seal != _seal(content, self._key, rows, predicted):
            return 0
        self.rows, self.predicted, self._content = rows, predicted, content
        return int(size)


def _seal(content: hashlib._Hash, key: str, rows: int, predicted: int) -> str:
    """Returns the checksum of a content and of what is known about it."""
    seal = content.copy()
    seal.update(json.dumps([key, rows, predicted]).encode())
    return seal.hexdigest()


def _open_locked(path: Path) -> BinaryIO:
    """Opens a file that no other process writes. Does not follow links."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        stream = os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0)
        _lock(stream, path)
        try:
            if os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
                return stream
        except FileNotFoundError:
            pass
        stream.close()  # it was finished by another process in the meantime


def _lock(stream: BinaryIO, path: Path) -> None:
    """Locks a file until it is closed. Raises an error if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        stream.close()
        raise ValueError(f"{path}: another process is writing it") from None
