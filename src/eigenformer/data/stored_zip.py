"""Zip files with uncompressed members. No more bytes are read than the file has."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from eigenformer.data.pickle_machine import Refused


class StoredZip:
    """The uncompressed members of a zip file.

    Args:
        file: The open file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.size = file.seek(0, os.SEEK_END)
        with _damaged():
            self._archive = zipfile.ZipFile(file)
        self._members = {info.filename: info for info in self._archive.infolist()}
        self._left = self.size

    @property
    def names(self) -> list[str]:
        """The names of the members."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """Returns the bytes of a member. Read each member only once."""
        info = self._members.get(name)
        if info is None:
            raise Refused("lacks one of its parts")
        self._left -= info.file_size
        # All members together have no more bytes than the file, unless some of them are the same.
        if info.compress_type != zipfile.ZIP_STORED or self._left < 0:
            raise Refused("is compressed, or claims more bytes than it has")
        with _damaged():
            return self._archive.read(info)


@contextmanager
def _damaged() -> Iterator[None]:
    """Translates Python's errors for an invalid zip file to :class:`Refused`."""
    try:
        yield
    except DAMAGED as error:
        reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        raise Refused(f"a damaged zip file: {reason}") from None


DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(OSError, EOFError, ValueError, RuntimeError),
)
"""The exceptions that Python raises for a damaged zip file."""
