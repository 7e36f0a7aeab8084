"""From raw files to batches: graph archives, their spectra, the seven benchmarks, own graphs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenformer.data.archive import GraphArchive
    from eigenformer.data.batching import GraphDataset, GraphLoader, PairBatchSampler
    from eigenformer.data.benchmarks import BENCHMARKS, Benchmark
    from eigenformer.data.errors import DataError
    from eigenformer.data.fields import Field, Task
    from eigenformer.data.molecules import featurizer
    from eigenformer.data.own import OwnData, read_own
    from eigenformer.data.preparation import Prepared, prepare, prepare_own
    from eigenformer.data.spectra import Spectra, spectra_of
    from eigenformer.data.statistics import Statistics

# Resolved when first used, so that listing what is there does not load PyTorch.
_HOMES = {
    "BENCHMARKS": "benchmarks",
    "Benchmark": "benchmarks",
    "DataError": "errors",
    "Field": "fields",
    "GraphArchive": "archive",
    "GraphDataset": "batching",
    "GraphLoader": "batching",
    "OwnData": "own",
    "PairBatchSampler": "batching",
    "Prepared": "preparation",
    "Spectra": "spectra",
    "Statistics": "statistics",
    "Task": "fields",
    "featurizer": "molecules",
    "prepare": "preparation",
    "prepare_own": "preparation",
    "read_own": "own",
    "spectra_of": "spectra",
}

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "DataError",
    "Field",
    "GraphArchive",
    "GraphDataset",
    "GraphLoader",
    "OwnData",
    "PairBatchSampler",
    "Prepared",
    "Spectra",
    "Statistics",
    "Task",
    "featurizer",
    "prepare",
    "prepare_own",
    "read_own",
    "spectra_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigenformer.data' has no attribute '{name}'")
    return getattr(import_module(f"eigenformer.data.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
