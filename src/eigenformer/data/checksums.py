"""Checks that an official file is the expected one.

If the SHA-256 of the file is published, the file must match it. Otherwise, the checksum of the
first file that is used is recorded beside it, and every later file must match that one.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from eigenformer.data.errors import DamagedError, Problem
from eigenformer.files import write_atomic


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def record_of(path: Path) -> Path:
    """Returns the path at which the checksum of a file is recorded."""
    return path.with_name(f"{path.name}.sha256.json")


def check_file(path: Path, published: str | None) -> None:
    """Raises an error if the file does not match its published checksum.

    Without a published checksum, the file must match the one that was used first.
    """
    found, record = sha256_of(path), record_of(path)
    if published is not None:
        if found != published:
            reason = f"not the official file: its SHA-256 is {found}, not {published}; delete it"
            raise DamagedError(Problem(str(path), reason))
    elif record.is_file():
        if found != _recorded(record):
            reason = (
                f"not the file that was first used here: its SHA-256 is {found}; restore the "
                f"first one, or delete {record.name} to accept this one"
            )
            raise DamagedError(Problem(str(path), reason))
    else:
        content = {"file": path.name, "sha256": found, "size": path.stat().st_size}
        write_atomic(record, f"{json.dumps(content)}\n".encode())


def _recorded(record: Path) -> str:
    try:
        return str(json.loads(record.read_bytes())["sha256"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DamagedError(Problem(str(record), "not a checksum record; delete it")) from None
