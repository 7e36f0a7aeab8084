"""Checks on this machine whether every way to compute attention agrees with the equations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from eigenformer.config import EmbeddingSpec
from eigenformer.kernels import choose_kernel
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.options import Backend
from eigenformer.spectrum import LaplacianSpectrum

TOLERANCE = 1e-4
"""The largest allowed error. Different orders of summation change the last digits in float32."""

_PRESETS = ("zinc", "zinc-feat", "pattern", "cluster-feat", "peptides-func")
_SIZES = (1, 2, 9, 33, 80)


@dataclass(frozen=True)
class BackendCheck:
    """The difference between a backend and the literal one.

    Args:
        backend: The backend.
        error: The largest difference in any output or gradient, relative to the largest entry.
        cases: Number of batches compared. Batches that the backend does not support do not count.
    """

    backend: Backend
    error: float
    cases: int

    @property
    def agrees(self) -> bool:
        return self.error < TOLERANCE


def check_backends(
    backends: Sequence[Backend], seconds: float = 10.0, device: str = "cpu"
) -> list[BackendCheck]:
    """Compares the outputs and all gradients of backends with ``literal``, on models like presets.

    Args:
        backends: The backends to compare.
        seconds: The approximate time limit. Every preset is compared at least once.
        device: The device to compute on.
    """
    found: dict[Backend, list[float]] = {backend: [] for backend in backends}
    cases, end = 0, time.perf_counter() + seconds
    while cases < len(_PRESETS) or (time.perf_counter() < end and cases < 10 * len(_PRESETS)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(cases)
            # The steep slope of ψ at 0 would amplify an error in the last digit of a product to
            # the fourth digit of the gradient.
            settings: dict[str, Any] = {"layers": 2, "psi": "identity"}
            model = Eigenformer.from_preset(_PRESETS[cases % len(_PRESETS)], **settings).eval()
            batch = _batch(model).to(device)
            model = model.to(device)
        oracle = _results(model, batch, "literal")
        request = replace(model.request(), device=torch.device(device))
        for backend, errors in found.items():
            # Another kernel would take over what this one does not support.
            if backend in ("auto", choose_kernel(request, backend).name):
                errors.append(_error(_results(model, batch, backend), oracle))
        cases += 1
    return [
        BackendCheck(name, max(errors, default=0.0), len(errors)) for name, errors in found.items()
    ]


def _error(found: list[Tensor], oracle: list[Tensor]) -> float:
    return max(
        float((mine - true).abs().max() / true.abs().max().clamp(min=1e-30))
        for mine, true in zip(found, oracle, strict=True)
    )


def _batch(model: Eigenformer) -> Batch:
    """Returns random graphs with the features that a model takes."""
    graphs = []
    for size in _SIZES:
        edge_index = torch.randint(size, (2, 2 * size)).unique(dim=1)
        data = Data(
            x=_features(model.config.node_encoder, size, 0),
            edge_index=edge_index,
            edge_attr=_features(model.config.edge_encoder, edge_index.size(1), 1),
        )
        data.num_nodes = size
        graphs.append(data)
    return Batch.from_data_list(LaplacianSpectrum().many(graphs))


def _features(spec: object, rows: int, lowest: int) -> Tensor:
    if isinstance(spec, EmbeddingSpec):
        return torch.randint(lowest, spec.num_types, (rows,))
    return torch.randn(rows, getattr(spec, "in_channels", 1))


def _results(model: Eigenformer, batch: Batch, backend: Backend) -> list[Tensor]:
    """Returns the output and the gradients, each flattened."""
    model.backend = backend
    model.zero_grad()
    out = model(batch)
    (out * torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)).sum().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return [out.detach().flatten(), torch.cat(gradients)]
