"""Facts about a run besides its settings: versions, the Git revision, peak memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def versions() -> dict[str, str]:
    """Returns the versions of the packages that a result depends on."""
    from importlib.metadata import PackageNotFoundError, version

    from eigenformer import __version__

    found = {"eigenformer": __version__, "python": sys.version.split()[0]}
    for package in ("torch", "torch_geometric", "lightning", "torchmetrics", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str | None:
    """Returns the commit of the running source checkout, or None if it is unknown."""
    import subprocess

    source = Path(__file__).resolve().parent
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40"]
    if not any((parent / ".git").exists() for parent in source.parents):
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def peak_memory_mb() -> float:
    """Returns the peak memory of this process, on the GPU if one is in use."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 2**20
    if os.name != "posix":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
