"""Files that are written completely or not at all, and paths that can be written down."""

from __future__ import annotations

import glob
import os
import platform
import re
import tempfile
from pathlib import Path

_TEMPORARY = re.compile(r"\..+~(?P<host>[^~]*)~(?P<process>\d+)~\w+")


class PathError(ValueError):
    """A path cannot be used."""


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file completely or not at all.

    Writes a temporary file in the same folder, flushes it to disk, and renames it.
    """
    temporary = None
    try:
        handle, temporary = temporary_beside(path)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def temporary_beside(path: Path) -> tuple[int, Path]:
    """Opens a new temporary file in the folder of a file. Returns its handle and its path.

    The name tells whose file it is, so that it can be recognised if this process is killed.
    """
    prefix = f".{path.name}~{_host()}~{os.getpid()}~"
    handle, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    return handle, Path(name)


def remove_leftovers(folder: Path) -> None:
    """Removes all temporary files in a folder.

    Call this only while no other process writes to the folder.
    """
    for file in folder.iterdir():
        if is_temporary(file.name):
            file.unlink(missing_ok=True)


def remove_leftovers_of(path: Path) -> None:
    """Removes the temporary files that killed processes of this machine left behind for a file."""
    for name in glob.glob(f".{glob.escape(path.name)}~*", root_dir=path.parent):
        found = _TEMPORARY.fullmatch(name)
        if found and found["host"] == _host() and not is_running(int(found["process"])):
            (path.parent / name).unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that :func:`write_atomic` did not finish."""
    return _TEMPORARY.fullmatch(name) is not None


def check_path(path: str | Path) -> None:
    """Raises an error if a path is not valid UTF-8, and so cannot be written down in a file."""
    whole = os.path.abspath(path)
    try:
        whole.encode()
    except UnicodeEncodeError:
        shown = whole.encode("utf-8", "backslashreplace").decode()
        raise PathError(
            f"{shown}: the path is not valid UTF-8; rename the file or folder"
        ) from None


def _host() -> str:
    return re.sub(r"[^\w.-]", "", platform.node())


def is_running(process: int) -> bool:
    """Whether a process of this machine is running, as far as can be told."""
    if os.name != "posix":  # elsewhere, signal 0 would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
