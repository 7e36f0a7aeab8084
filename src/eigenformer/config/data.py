"""Data settings: for a benchmark or the user's own data, and for the input format of a model."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eigenformer.config.settings import ConfigError, Settings, setting_types
from eigenformer.nearest import unknown
from eigenformer.options import SplitBy

FRACTIONS = (0.8, 0.1, 0.1)
"""Default fractions of train, val and test."""


@dataclass(frozen=True)
class ReadOptions(Settings):
    """How the user's own graphs are read.

    Args:
        smiles: Column with the SMILES, in tables of molecules.
        targets: Columns to predict, from the table of molecules, ``graphs`` or ``nodes``.
        identifier: Column with unique values that name the molecules, in tables of molecules.
        split_column: Column that contains ``train``, ``val`` or ``test``, in tables.
        weight_column: Column with the weight of each row in the training loss, in tables.
        task: Kind of the targets: ``regression``, ``gaussian`` (numbers, each with its
            uncertainty), ``binary``, ``multiclass`` or ``multilabel``; None to infer it from their
            values.
        featurizer: How molecules become graphs: ``molecule``, ``ogb`` or ``zinc``; None for
            ``molecule`` in tables, and for other graphs if they are not known to be molecules.
        undirected: Whether edges go both ways even if they are listed in one direction, in plain
            tables.
        ignored_columns: Columns that are not features, in the tables ``nodes`` and ``edges``.
        descriptors: Numbers beside the graph of a molecule: ``rdkit2d``, ``morgan``, or columns
            of the table.
    """

    smiles: str = "smiles"
    targets: tuple[str, ...] = ()
    identifier: str | None = None
    split_column: str | None = None
    weight_column: str | None = None
    task: str | None = None
    featurizer: str | None = None
    undirected: bool = False
    ignored_columns: tuple[str, ...] = ()
    descriptors: tuple[str, ...] = ()

    def check(self) -> None:
        for setting in ("targets", "descriptors"):
            for name, count in Counter(getattr(self, setting)).items():
                if count > 1:
                    raise ConfigError(f"{setting}: '{name}' appears twice")
        for name in self.descriptors:
            if name in (*self.targets, self.smiles, self.identifier, self.split_column):
                raise ConfigError(f"descriptors: '{name}' is used otherwise")
        if self.weight_column in (*self.targets, *self.descriptors, self.smiles):
            raise ConfigError(f"weight_column: '{self.weight_column}' is used otherwise")
        for name in self.targets:
            if name in self.ignored_columns:
                raise ConfigError(f"ignored_columns: '{name}' is a target")
        if self.task is not None:
            from eigenformer.targets import target_class

            target_class(self.task)


@dataclass(frozen=True)
class SplitOptions(Settings):
    """How the user's own graphs are split.

    Args:
        split_by: Method: ``random``, ``stratified``, ``scaffold``, or ``column`` for the split
            stored with the data; None for the stored split if there is one. Training splits data
            without a stored split at random.
        fractions: Fractions of the graphs in train, val and test.
        split_seed: Seed of the split.
        folds: Number of folds for cross-validation. One fold is test, and the others are divided
            into train and val, in the proportion of ``fractions``; None for no folds.
        fold: Which fold is test, counted from 0.
    """

    split_by: SplitBy | None = None
    fractions: tuple[float, ...] = FRACTIONS
    split_seed: int = 0
    folds: int | None = None
    fold: int = 0

    def check(self) -> None:
        if self.folds is not None and self.folds < 2:
            raise ConfigError(f"folds: must be at least 2, got {self.folds}")
        if not 0 <= self.fold < (self.folds or 1):
            raise ConfigError(f"fold: must be at least 0 and below folds, got {self.fold}")
        if self.folds is not None and self.split_by == "column":
            raise ConfigError("folds: cannot be combined with the split of a column")
        parts = len(self.fractions) == 3 and all(0 <= part <= 1 for part in self.fractions)
        if not parts or abs(sum(self.fractions) - 1) > 1e-6:
            raise ConfigError(
                f"fractions: expected three numbers that add up to 1 (train, val, test), got "
                f"{self.fractions}"
            )
        if self.split_seed < 0:
            raise ConfigError(f"split_seed: must not be negative, got {self.split_seed}")


@dataclass(frozen=True)
class OwnData(ReadOptions, SplitOptions):
    """The user's own data: a table of molecules, a folder of graphs, or an archive.

    Args:
        dataset: Path to the table, folder or archive.
        smiles: Column with the SMILES, in tables of molecules.
        targets: Columns to predict, from the table of molecules, ``graphs`` or ``nodes``.
        identifier: Column with unique values that name the molecules, in tables of molecules.
        split_column: Column that contains ``train``, ``val`` or ``test``, in tables.
        weight_column: Column with the weight of each row in the training loss, in tables.
        task: Kind of the targets: ``regression``, ``gaussian`` (numbers, each with its
            uncertainty), ``binary``, ``multiclass`` or ``multilabel``; None to infer it from their
            values.
        metric: Metric that selects the best epoch: ``mae``, ``rmse``, ``r2``, ``accuracy``,
            ``weighted_accuracy``, ``f1``, ``auroc`` or ``average_precision``; None for the usual
            metric of the task.
        split_by: How to split the graphs: ``random``, ``stratified``, ``scaffold``, or ``column``
            for the split stored with the data; None for the stored split if there is one,
            otherwise ``random``.
        fractions: Fractions of the graphs in train, val and test.
        split_seed: Seed of the split.
        folds: Number of folds for cross-validation. One fold is test, and the others are divided
            into train and val, in the proportion of ``fractions``; None for no folds.
        fold: Which fold is test, counted from 0.
        featurizer: How molecules become graphs: ``molecule``, ``ogb`` or ``zinc``; None for
            ``molecule`` in tables, and for other graphs if they are not known to be molecules.
        undirected: Whether edges go both ways even if they are listed in one direction, in plain
            tables.
        ignored_columns: Columns that are not features, in the tables ``nodes`` and ``edges``.
        descriptors: Numbers beside the graph of a molecule: ``rdkit2d``, ``morgan``, or columns
            of the table.
        max_bad_rows: Largest share of unreadable rows with which training still starts.
        limit: Number of graphs to take from each split, for a quick look; None for all.
        num_frequencies: Number of lowest frequencies to keep; None for all.
    """

    dataset: str = dataclasses.field(kw_only=True)
    metric: str | None = None
    max_bad_rows: float = 0.05
    limit: int | None = None
    num_frequencies: int | None = None
    kind: Literal["own"] = "own"

    def check(self) -> None:
        if not self.dataset:
            raise ConfigError("dataset: is empty; name a benchmark or a path to your own data")
        ReadOptions.check(self)
        SplitOptions.check(self)
        _check_counts(self, "limit", "num_frequencies")
        if not 0 <= self.max_bad_rows <= 1:
            raise ConfigError(f"max_bad_rows: must be in [0, 1], got {self.max_bad_rows}")
        check_split_column(self, self)
        if self.metric is not None:
            from eigenformer.targets import known_metrics

            if self.metric not in (known := known_metrics()):
                raise ConfigError(unknown(f"metric: '{self.metric}'", self.metric, known))

    @property
    def name(self) -> str:
        """Name of the data: the file name without its extension."""
        return Path(self.dataset).name.split(".")[0]

    def reading(self) -> ReadOptions:
        """Returns the settings for reading the data."""
        return ReadOptions(**{name: getattr(self, name) for name in setting_types(ReadOptions)})

    def splitting(self) -> SplitOptions:
        """Returns the settings for splitting the data."""
        return SplitOptions(**{name: getattr(self, name) for name in setting_types(SplitOptions)})


@dataclass(frozen=True)
class BenchmarkData(Settings):
    """One of the paper's benchmarks.

    Args:
        dataset: Name of the benchmark.
        limit: Number of graphs to take from each split, for a quick look; None for all.
        num_frequencies: Number of lowest frequencies to keep; None for all.
        size: Number of graphs to generate, for ``pattern`` and ``cluster``; None for the paper's
            number.
        generator_seed: Seed of the generated graphs, for ``pattern`` and ``cluster``.
        official: Whether to use the published graphs instead of generated ones, for ``pattern``
            and ``cluster``.
    """

    dataset: str
    limit: int | None = None
    num_frequencies: int | None = None
    size: int | None = None
    generator_seed: int = 0
    official: bool = False
    kind: Literal["benchmark"] = "benchmark"

    def check(self) -> None:
        _check_counts(self, "limit", "size", "num_frequencies")

    @property
    def name(self) -> str:
        """Name of the data."""
        return self.dataset


DataConfig = BenchmarkData | OwnData
"""The data a model is trained on; ``kind`` tells them apart."""


@dataclass(frozen=True)
class InputFormat(Settings):
    """What a model must know about its input to predict: how raw data becomes graphs.

    Args:
        featurizer: How molecules become graphs; None for graphs that are not molecules.
        smiles: Column with the SMILES.
        target_columns: Columns the model was trained to predict; prediction ignores them.
        node_features: Columns of the table of nodes, in order; empty if they have no names.
        edge_features: Columns of the table of edges.
        undirected: Whether edges go both ways, in plain tables.
        ignored_columns: Columns of the tables of nodes and edges that were not used.
        num_frequencies: Number of lowest frequencies to keep; None for all.
        unknown_type: Node type that stands for all types missing from the training data; None if
            there is no such type.
        descriptors: Numbers beside the graph of a molecule: sets of descriptors, and columns.
    """

    featurizer: str | None = None
    smiles: str = "smiles"
    target_columns: tuple[str, ...] = ()
    node_features: tuple[str, ...] = ()
    edge_features: tuple[str, ...] = ()
    undirected: bool = False
    ignored_columns: tuple[str, ...] = ()
    num_frequencies: int | None = None
    unknown_type: int | None = None
    descriptors: tuple[str, ...] = ()

    def check(self) -> None:
        _check_counts(self, "num_frequencies")


def with_kind(values: Mapping[str, Any], benchmarks: Container[str]) -> dict[str, Any]:
    """Returns plain data settings with the ``kind`` that the name of the dataset implies.

    Settings of the other kind are dropped if they have their default values; other values raise
    an error. A path is never a benchmark: ``./zinc`` is the user's own folder.
    """
    values, dataset = dict(values), values.get("dataset")
    if "kind" in values or not isinstance(dataset, str):
        return values
    benchmark = dataset in benchmarks
    member, other = (BenchmarkData, OwnData) if benchmark else (OwnData, BenchmarkData)
    defaults = {field.name: field.default for field in dataclasses.fields(other)}
    for name in defaults.keys() - setting_types(member):
        if name not in values:
            continue
        value = values.pop(name)
        if (tuple(value) if isinstance(value, list) else value) != defaults[name]:
            if benchmark:
                raise ConfigError(f"data.{name}: for your own data; '{dataset}' is a benchmark")
            raise ConfigError(f"data.{name}: for pattern and cluster only, not for '{dataset}'")
    return {**values, "kind": "benchmark" if benchmark else "own"}


def check_split_column(reading: ReadOptions, splitting: SplitOptions) -> None:
    """Raises an error if both a column and another method of splitting are given."""
    if reading.split_column is None:
        return
    if splitting.split_by not in (None, "column"):
        raise ConfigError(f"split_by: '{splitting.split_by}' cannot be combined with split_column")
    if splitting.folds is not None:
        raise ConfigError("folds: cannot be combined with split_column")


def _check_counts(settings: Settings, *names: str) -> None:
    for name in names:
        if getattr(settings, name) is not None and getattr(settings, name) < 1:
            raise ConfigError(f"{name}: must be at least 1, got {getattr(settings, name)}")
