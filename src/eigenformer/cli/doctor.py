"""``eigenformer doctor``: shows what is installed and which backend is active, and checks it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from eigenformer.cli.settings import add_folders, workspace_of

if TYPE_CHECKING:
    import torch

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
    "search": "optuna",
    "hub": "huggingface_hub",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments: the folders to inspect."""
    add_folders(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings. Returns the exit code 1 if the backends disagree on any device."""
    import torch

    gpus = _gpus()
    _print_versions(gpus)
    _print_attention(gpus)
    _print_folders(workspace_of(arguments))
    agree = [_compare(device) for device in (torch.device("cpu"), *gpus)]
    return 0 if all(agree) else 1


def _gpus() -> list[torch.device]:
    import torch

    if torch.backends.mps.is_available():
        return [torch.device("mps")]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.device("cuda", number) for number in range(count)]


def _compare(device: torch.device) -> bool:
    """Compares all backends that run on a device with ``literal``; returns whether they agree."""
    from eigenformer.kernels import KERNELS, Request, why_not
    from eigenformer.self_check import check_backends

    request = Request(device=device)
    there = [kernel for kernel in KERNELS if why_not(kernel, request) is None]
    doubts = {kernel.name: doubt for kernel in there if (doubt := kernel.doubts(request))}
    for name, doubt in doubts.items():
        _line("self-check", f"{name} is not used on {device}: {doubt}")
    backends = [kernel.name for kernel in reversed(there) if kernel.name not in doubts]
    backends.remove("literal")
    checks = check_backends(backends, device=str(device))
    for check in checks:
        if not check.cases:
            _line("self-check", f"{check.backend} supports none of the compared models")
            continue
        verdict = "agrees with" if check.agrees else "DIFFERS FROM"
        text = f"{check.backend} {verdict} literal: largest difference {check.error:.1e}"
        place = "" if device.type == "cpu" else f", on {device}"
        _line("self-check", f"{text} in {check.cases} batches{place}")
    return not doubts and all(check.agrees for check in checks)


def _print_versions(gpus: list[torch.device]) -> None:
    import platform

    import torch

    from eigenformer import __version__

    _line("eigenformer", __version__)
    _line("Python", f"{platform.python_version()} on {platform.platform()}")
    _line("packages", ", ".join(f"{name} {_version(p)}" for p, name in _PACKAGES.items()))
    extras = [f"{extra}: {package} {_version(package)}" for extra, package in _EXTRAS.items()]
    _line("extras", ", ".join(extras))
    names = [torch.cuda.get_device_name(g) if g.type == "cuda" else "Metal" for g in gpus]
    _line("threads", f"{torch.get_num_threads()}; GPU: {', '.join(names) or 'none'}")


def _print_attention(gpus: list[torch.device]) -> None:
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
    for device in gpus or [torch.device("cuda")]:
        request = Request(device=device)
        kernel = choose_kernel(request)
        why = why_not(TritonAttention, request) or TritonAttention.doubts(request)
        reason = kernel.details() if why is None else f"{TritonAttention.name}: {why}"
        _line("", f"{kernel.name} for {device if len(gpus) > 1 else 'a GPU'} ({reason})")


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
