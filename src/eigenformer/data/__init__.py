"""From raw files to batches: archives, spectra, the seven benchmarks, and the user's own graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import lazy_names

if TYPE_CHECKING:
    from eigenformer.config import ReadOptions, SplitOptions
    from eigenformer.data.archive import GraphArchive
    from eigenformer.data.batching import GraphDataset, keep_batch
    from eigenformer.data.benchmarks import BENCHMARKS, Benchmark
    from eigenformer.data.errors import DataError
    from eigenformer.data.fields import Field
    from eigenformer.data.molecules import featurizer
    from eigenformer.data.preparation import Prepared, prepare, prepare_own
    from eigenformer.data.reading import read_own
    from eigenformer.data.spectra import Spectra, spectra_of
    from eigenformer.data.splits import random_split, scaffold_split, stratified_split
    from eigenformer.data.statistics import Statistics
    from eigenformer.data.workspace import Workspace

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "DataError",
    "Field",
    "GraphArchive",
    "GraphDataset",
    "Prepared",
    "ReadOptions",
    "Spectra",
    "SplitOptions",
    "Statistics",
    "Workspace",
    "featurizer",
    "keep_batch",
    "prepare",
    "prepare_own",
    "random_split",
    "read_own",
    "scaffold_split",
    "spectra_of",
    "stratified_split",
]

# Names are resolved on first use, so that listing them does not load PyTorch.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BENCHMARKS": "eigenformer.data.benchmarks",
        "Benchmark": "eigenformer.data.benchmarks",
        "DataError": "eigenformer.data.errors",
        "Field": "eigenformer.data.fields",
        "GraphArchive": "eigenformer.data.archive",
        "GraphDataset": "eigenformer.data.batching",
        "Prepared": "eigenformer.data.preparation",
        "ReadOptions": "eigenformer.config",
        "Spectra": "eigenformer.data.spectra",
        "SplitOptions": "eigenformer.config",
        "Statistics": "eigenformer.data.statistics",
        "Workspace": "eigenformer.data.workspace",
        "featurizer": "eigenformer.data.molecules",
        "keep_batch": "eigenformer.data.batching",
        "prepare": "eigenformer.data.preparation",
        "prepare_own": "eigenformer.data.preparation",
        "random_split": "eigenformer.data.splits",
        "read_own": "eigenformer.data.reading",
        "scaffold_split": "eigenformer.data.splits",
        "spectra_of": "eigenformer.data.spectra",
        "stratified_split": "eigenformer.data.splits",
    },
)
