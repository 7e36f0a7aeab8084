"""``eigenformer doctor``: shows what is installed and which backend is active, and checks it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from eigenformer.cli.settings import add_folders, workspace_of

if TYPE_CHECKING:
    from eigenformer.data.workspace import Workspace

_PACKAGES = {
    "torch": "PyTorch",
    "torch_geometric": "PyG",
    "lightning": "Lightning",
    "torchmetrics": "torchmetrics",
    "numpy": "NumPy",
    "scipy": "SciPy",
}
_EXTRAS = {
    "chem": "rdkit",
    "plots": "matplotlib",
    "sklearn": "scikit-learn",
    "images": "scikit-image",
    "parquet": "pyarrow",
    "ray": "ray",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the folders to inspect."""
    add_folders(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings. Returns the exit code 1 if the backends disagree."""
    import torch

    _print_versions()
    _print_attention()
    _print_folders(workspace_of(arguments))
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    agree = [_compare(device) for device in ("cpu", *(gpu for gpu in there if there[gpu]))]
    return 0 if all(agree) else 1


def _compare(device: str) -> bool:
    """Compares all backends that run on a device with ``literal``; returns whether they agree."""
    from eigenformer.kernels import KERNELS, Request, why_not
    from eigenformer.self_check import check_backends

    there = [kernel.name for kernel in KERNELS if why_not(kernel, Request(device=device)) is None]
    backends = [name for name in reversed(there) if name != "literal"]
    checks = check_backends(backends, device=device)
    for check in checks:
        if not check.cases:
            _line("self-check", f"{check.backend} supports none of the compared models")
            continue
        verdict = "agrees with" if check.agrees else "DIFFERS FROM"
        text = f"{check.backend} {verdict} literal: largest difference {check.error:.1e}"
        place = "" if device == "cpu" else ", on the GPU"
        _line("self-check", f"{text} in {check.cases} batches{place}")
    return all(check.agrees for check in checks)


def _print_versions() -> None:
    import platform

    import torch

    from eigenformer import __version__

    _line("eigenformer", __version__)
    _line("Python", f"{platform.python_version()} on {platform.platform()}")
    _line("packages", ", ".join(f"{name} {_version(p)}" for p, name in _PACKAGES.items()))
    extras = [f"{extra}: {package} {_version(package)}" for extra, package in _EXTRAS.items()]
    _line("extras", ", ".join(extras))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    _line("threads", f"{torch.get_num_threads()}; GPU: {device}")


def _print_attention() -> None:
    """Prints which kernel computes what, and why faster ones are not used."""
    import torch

    from eigenformer.kernels import (
        NativeAttention,
        Request,
        TritonAttention,
        choose_kernel,
        why_not,
    )

    title = "attention"
    active = choose_kernel(Request())
    if NativeAttention.unavailable():
        _line(title, f"{active.name}: {NativeAttention.unavailable()}")
        title = ""
    details = f" ({active.details()})" if active.details() else ""
    _line(title, f"{active.name} for float32 on the CPU{details}")
    for text, request in {
        "float64": Request(torch.float64),
        "edges and features": Request(features=True, edges=True),
        "attention weights": Request(return_attention=True),
    }.items():
        kernel = choose_kernel(request)
        if kernel is not active:
            reason = f"{active.name}: {active.unsupported(request)}"
            _line("", f"{kernel.name} for {text} ({reason})")
    gpu = Request(device="mps" if torch.backends.mps.is_available() else "cuda")
    kernel = choose_kernel(gpu)
    why = why_not(TritonAttention, gpu) or TritonAttention.doubts(gpu)
    reason = kernel.details() if why is None else f"{TritonAttention.name}: {why}"
    _line("", f"{kernel.name} for a GPU ({reason})")


def _print_folders(workspace: Workspace) -> None:
    from eigenformer.data.listing import list_entries
    from eigenformer.data.store import folder_bytes

    _line("raw data", str(workspace.raw_dir or "not set (--raw-dir, EIGENFORMER_RAW_DIR)"))
    there = workspace.cache_dir.is_dir()
    size = f"{folder_bytes(workspace.cache_dir) / 1e6:.0f} MB" if there else "does not exist yet"
    _line("cache", f"{workspace.cache_dir}: {size}")
    prepared = [entry.name for entry in list_entries(workspace) if entry.path is not None]
    _line("prepared", ", ".join(prepared) or "none; see  eigenformer data list")


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _line(title: str, text: str) -> None:
    print(f"{title:<17}{text}", flush=True)
