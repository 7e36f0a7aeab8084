"""The folders, workers and reporter of a command, created once; and where to find raw files.

Raw files come from a folder that the user names, or else from the official address.
Raw folders are only read. Downloaded files go to ``raw`` in the cache folder. They are checked
whenever they are used (:mod:`eigenformer.data.checksums`).
"""

from __future__ import annotations

import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

from eigenformer.data.checksums import check_file, sha256_of
from eigenformer.data.errors import DataError, DownloadError
from eigenformer.files import check_path
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter

RAW_DIR = "EIGENFORMER_RAW_DIR"
CACHE_DIR = "EIGENFORMER_CACHE_DIR"
TIMEOUT = 10.0


@dataclass(frozen=True)
class RawFile:
    """A file that a benchmark needs.

    Args:
        name: Its name in the benchmark's folder.
        url: Its official address; None if it cannot be downloaded.
        sha256: Its published checksum; None if unknown.
    """

    name: str
    url: str | None = None
    sha256: str | None = None


Layouts = Sequence[Sequence[RawFile]]
"""Alternative sets of files for a benchmark, best first. The last one can be downloaded."""


@dataclass(frozen=True)
class Workspace:
    """The folders, workers and reporter of one command.

    Args:
        raw_dir: The user's own copy of the raw files; None if there is no copy.
        cache_dir: Where archives, spectra and downloads go.
        workers: Number of threads for spectra; None for all cores.
        reporter: Prints messages and progress.
        limits: How large an input may be.
    """

    raw_dir: Path | None
    cache_dir: Path
    workers: int | None = None
    reporter: Reporter = field(default_factory=Reporter, compare=False)
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def resolve(
        cls,
        raw_dir: str | Path | None = None,
        cache_dir: str | Path | None = None,
        workers: int | None = None,
        reporter: Reporter | None = None,
        environment: Mapping[str, str] = os.environ,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Workspace:
        """Creates a workspace. Missing values come from the environment, then from defaults.

        Args:
            raw_dir: The raw files of benchmarks (default: ``EIGENFORMER_RAW_DIR``).
            cache_dir: Where results go (default: ``EIGENFORMER_CACHE_DIR``, then the user's cache).
            workers: Number of threads for spectra (default: all cores).
            reporter: Prints messages and progress (default: prints warnings only).
            environment: The environment variables of the process.
            limits: How large an input may be.
        """
        raw_dir = raw_dir or environment.get(RAW_DIR) or None
        cache_dir = cache_dir or environment.get(CACHE_DIR) or user_cache_dir(environment)
        raw = None if raw_dir is None else Path(raw_dir).expanduser()
        if raw is not None and not raw.is_dir():
            raise DownloadError(f"{raw}: the raw folder does not exist")
        cache = Path(cache_dir).expanduser().absolute()
        check_path(cache)
        if cache.exists() and not cache.is_dir():
            raise DataError(f"{cache}: the cache folder is a file")
        if workers is not None and workers < 1:
            raise DataError(f"workers: must be at least 1, got {workers}")
        limits.check("workers", workers or 1)
        return cls(raw, cache, workers, reporter or Reporter(), limits)

    @property
    def spectra_dir(self) -> Path:
        """The folder of the cached spectra."""
        return self.cache_dir / "spectra"

    def locate(self, benchmark: str, layouts: Layouts) -> list[Path] | None:
        """Returns the files of the first complete layout, or None if no layout is complete.

        The user's own folder is searched first, then the downloaded files.
        """
        found = self._find(benchmark, layouts)
        return None if found is None else [path for _, path in found]

    def fetch(self, benchmark: str, layouts: Layouts) -> list[Path]:
        """Returns the same files as :meth:`locate`. Downloads the last layout if none is complete.

        Official files in the cache folder are checked. Files in the user's own folder are not.
        """
        found = self._find(benchmark, layouts)
        if found is None:
            folder = self.cache_dir / "raw" / benchmark
            found = [(file, folder / file.name) for file in layouts[-1]]
            for file, path in found:
                if not path.is_file():
                    download(file, path, self.reporter)
        for file, path in found:
            if file.url is not None and path.is_relative_to(self.cache_dir / "raw"):
                check_file(path, file.sha256)
        return [path for _, path in found]

    def _find(self, benchmark: str, layouts: Layouts) -> list[tuple[RawFile, Path]] | None:
        folders = [self.cache_dir / "raw"]
        if self.raw_dir is not None:
            folders.insert(0, self.raw_dir)
        for folder in folders:
            for layout in layouts:
                found = [(file, folder / benchmark / file.name) for file in layout]
                if all(path.is_file() for _, path in found):
                    return found
        return None


def user_cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder for caches of this user, following the operating system's convention."""
    if os.name == "nt":
        base = environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "eigenformer"


def download(file: RawFile, path: Path, reporter: Reporter) -> None:
    """Downloads one file. It appears at ``path`` only when it is complete."""
    place = f"{path.parent.name}/{file.name}"
    where = f"put the file at {path}, or point --raw-dir at a folder that contains {place}"
    if file.url is None:
        raise DownloadError(f"{file.name}: has no public URL; {where}")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".unfinished~", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            _copy(file.url, out, file.name, reporter)
        if file.sha256 is not None and sha256_of(Path(temporary)) != file.sha256:
            raise OSError(f"received another file: its SHA-256 is not {file.sha256}")
        os.replace(temporary, path)
    except (urllib.error.URLError, HTTPException, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"cannot download {file.url} ({reason}): {where}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _copy(url: str, out: BinaryIO, name: str, reporter: Reporter) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "eigenformer"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        total = int(response.headers.get("Content-Length") or 0)
        received = 0
        with reporter.step(f"download {name}", total, unit="B") as step:
            while block := response.read(1 << 20):
                out.write(block)
                received += len(block)
                step.advance(len(block))
        if total and received != total:
            raise OSError(f"received only {received} of {total} bytes")
