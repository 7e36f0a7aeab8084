"""Loads the training data of a run from a benchmark's name or the user's own file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from eigenformer.config import (
    BenchmarkData,
    DataConfig,
    EncodingSpec,
    InputFormat,
    OwnData,
    load_preset,
    presets,
)
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.benchmarks import BENCHMARKS, benchmark
from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.data.fields import NO_SPLIT, ROW_WEIGHT, SPLITS, Field, narrow, packed_rows
from eigenformer.data.molecules import FEATURIZERS
from eigenformer.data.preparation import Prepared, prepare, prepare_own
from eigenformer.data.spectra import Spectra
from eigenformer.data.splits import split_archive
from eigenformer.data.tables import is_table, read_table
from eigenformer.data.target_columns import archive_target
from eigenformer.data.workspace import Workspace
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.nearest import unknown
from eigenformer.targets import Target

_SHOWN = 20
_SEEN = ("x", "edge_attr", "descriptors", "y", ROW_WEIGHT)
"""The fields that a model is trained on, apart from what is computed from the structure."""


@dataclass(frozen=True)
class TrainingData:
    """Graphs that are ready for training.

    Args:
        name: The name of the data.
        archive: The graphs, with their split.
        spectra: The spectra of the graphs; None if the model does not need them.
        target: What is predicted.
        splits: The indices of the graphs used in each split.
        input_format: What a model trained on these graphs needs to know to predict.
        limits: How large the data and its models may be.
    """

    name: str
    archive: GraphArchive
    spectra: Spectra | None
    target: Target
    splits: dict[str, np.ndarray]
    input_format: InputFormat = field(default_factory=InputFormat)
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def digest(self) -> str:
        """A checksum of what a model is trained on: structure, features, targets and split."""
        content = self.archive.structure_hash()
        seen = {name: self.archive.fields[name] for name in _SEEN if name in self.archive.fields}
        arrays = {name: narrow(field.values) for name, field in seen.items()} | self.splits
        for name, array in arrays.items():
            content.update(repr((name, array.shape, array.dtype.str)).encode())
            content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return content.hexdigest()

    def dataset(self, split: str) -> GraphDataset:
        """Returns the graphs of one split, or of all splits (``all``)."""
        known = {**self.splits, "all": np.sort(np.concatenate([*self.splits.values()]))}
        if split not in known:
            raise DataError(unknown(f"split '{split}'", split, known))
        return GraphDataset(self.archive, self.spectra, indices=known[split])

    def targets(self, split: str) -> np.ndarray:
        """Returns the targets of one split, ``[rows, *]``; node targets are ordered by graph."""
        field, graphs = self.archive.fields["y"], self.splits[split]
        if field.level == "graph":
            return field.values[graphs]
        rows, _ = packed_rows(self.archive.node_offsets, graphs)
        return field.values[rows]

    def descriptors(self, split: str) -> np.ndarray | None:
        """Returns the descriptors of one split, ``[graphs, k]``; None if there are none."""
        field = self.archive.fields.get("descriptors")
        return None if field is None else field.values[self.splits[split]]


def load_data(
    config: DataConfig,
    workspace: Workspace | None = None,
    with_spectra: bool = True,
    encoding: EncodingSpec | None = None,
) -> TrainingData:
    """Loads the data of a run, and prepares it first if necessary.

    Args:
        config: The data settings.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        with_spectra: Whether the model needs spectra.
        encoding: The encoding that the model needs.
    """
    workspace = workspace or Workspace.resolve()
    if isinstance(config, BenchmarkData):
        if Path(config.dataset).exists():
            workspace.reporter.notice(
                f"'{config.dataset}' is the benchmark; to use the folder or file of that name "
                f"here, write  ./{config.dataset}"
            )
        prepared = prepare(
            config.dataset,
            workspace,
            num_frequencies=config.num_frequencies,
            size=config.size,
            seed=config.generator_seed,
            official=config.official,
            with_spectra=with_spectra,
            encoding=encoding,
        )
        archive = prepared.archive
        usable = np.ones(len(archive), dtype=bool)
        target = _target(config.dataset, archive, benchmark(config.dataset).metric)
    else:
        prepared = _prepare_own(config, workspace, with_spectra, encoding)
        path = Path(config.dataset)
        chosen = archive_target(prepared.archive, config.task, path)
        with placed(path):
            workspace.limits.check_settings(chosen)
        archive = prepared.archive
        if chosen != archive.target:
            archive = archive.with_target(chosen)
        usable = _labelled(archive)
        _report_bad_rows(archive, usable, path, config.max_bad_rows, workspace)
        archive = _split(archive, usable, config)
        archive = weighted(archive, np.flatnonzero(usable & (archive.split == 0)))
        usable &= has_weight(archive) | (archive.split != 0)
        target = _standardised(_target(config.dataset, archive, config.metric), archive, usable)
    splits = {name: np.flatnonzero(usable & (archive.split == i)) for i, name in enumerate(SPLITS)}
    if config.limit is not None:
        splits = {name: graphs[: config.limit] for name, graphs in splits.items()}
    expected = input_format(config, archive)
    return TrainingData(
        config.name, archive, prepared.spectra, target, splits, expected, workspace.limits
    )


def weighted(archive: GraphArchive, graphs: np.ndarray) -> GraphArchive:
    """Returns the archive with weights of rows, if it has any.

    Their mean over those ``graphs`` that have a weight is 1.
    """
    field = archive.fields.get(ROW_WEIGHT)
    if field is None or not len(graphs):
        return archive
    if field.level != "graph" or field.is_text or field.values.size != len(archive):
        raise DataError(f"{ROW_WEIGHT}: expected one number per graph")
    weights = field.values.reshape(-1).astype(np.float64)
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise DataError(f"{ROW_WEIGHT}: a weight is negative, infinite or not a number")
    there = weights[graphs][weights[graphs] > 0]
    if not len(there):
        raise DataError(f"{ROW_WEIGHT}: all graphs of the training set have the weight 0")
    scaled = (weights / there.mean()).astype(np.float32)
    return archive.with_field(ROW_WEIGHT, Field("graph", scaled, scaled.dtype))


def has_weight(archive: GraphArchive) -> np.ndarray:
    """Returns a mask of the graphs whose weight is not 0."""
    field = archive.fields.get(ROW_WEIGHT)
    return np.ones(len(archive), dtype=bool) if field is None else field.values > 0


def input_format(config: DataConfig, archive: GraphArchive) -> InputFormat:
    """Returns what a model trained on these graphs needs to know to predict."""
    columns, featurizer = archive.meta.get("columns", {}), archive.meta.get("featurizer")
    common = InputFormat(
        featurizer=featurizer if featurizer in FEATURIZERS else None,
        node_features=tuple(columns.get("x", ())),
        edge_features=tuple(columns.get("edge_attr", ())),
        num_frequencies=config.num_frequencies,
    )
    if isinstance(config, BenchmarkData):
        return replace(common, unknown_type=benchmark(config.dataset).unknown_type)
    return replace(
        common,
        featurizer=common.featurizer or config.featurizer,
        smiles=config.smiles,
        target_columns=config.targets,
        undirected=config.undirected,
        ignored_columns=config.ignored_columns,
        descriptors=config.descriptors,
    )


def _prepare_own(
    config: OwnData, workspace: Workspace, with_spectra: bool, encoding: EncodingSpec | None
) -> Prepared:
    path, options = Path(config.dataset), config.reading()
    _check_exists(path, config.dataset)
    if is_archive(path):  # it is used as it is; only its target may be of another kind
        options = options.replace(task=None)
    if is_table(path) and not config.targets:
        columns = ", ".join(list(read_table(path, limits=workspace.limits).columns)[:_SHOWN])
        raise DataError(
            f"{path}: which column to predict? Give it with --target (columns: {columns})"
        )
    # The path and the reading options identify an archive. The split does not: it is chosen per
    # run.
    place = hashlib.sha256(repr((path.resolve(), options)).encode()).hexdigest()[:8]
    name = None if is_archive(path) else f"{path.name.split('.')[0]}-{place}"
    return prepare_own(
        path,
        options,
        name,
        workspace,
        num_frequencies=config.num_frequencies,
        with_spectra=with_spectra,
        encoding=encoding,
    )


def _check_exists(path: Path, dataset: str) -> None:
    """Raises an error if the data does not exist, and suggests what was probably meant."""
    if path.exists():
        return
    if path.suffix or len(path.parts) > 1:  # meant as a path, not as a name
        raise DataError(Problem(dataset, "there is no such file or folder"))
    if dataset in BENCHMARKS:
        raise DataError(
            f"there is no file or folder '{dataset}'; for the benchmark, leave out data.kind"
        )
    if dataset in presets() and (data := load_preset(dataset).dataset):
        raise DataError(f"'{dataset}' is a preset; use  {data} --preset {dataset}")
    near = unknown(f"benchmark '{dataset}'", dataset, BENCHMARKS)
    raise DataError(f"{near}; there is no such file or folder either")


def _report_bad_rows(
    archive: GraphArchive, usable: np.ndarray, path: Path, most: float, workspace: Workspace
) -> None:
    """Reports rows without a graph or target; raises an error if their share exceeds ``most``."""
    reporter = workspace.reporter
    unlabelled = _unlabelled(archive, usable, path, workspace)
    rejected = [
        Problem(str(path), row["reason"], row["line"]) for row in archive.meta.get("rejected", ())
    ]
    bad, total = len(rejected) + len(unlabelled), len(archive) + len(rejected)
    if bad > most * total:
        problems = sorted([*rejected, *unlabelled], key=lambda problem: problem.line or 0)
        raise DataError(
            f"{path}: {bad} of {total} rows cannot be used ({100 * bad / total:.1f} %), more than "
            f"max_bad_rows allows ({most:g}); the first ones:\n"
            + "\n".join(map(str, problems[:_SHOWN]))
        )
    for problem in unlabelled[:_SHOWN]:
        reporter.notice(str(problem))
    if bad:
        reporter.notice(f"{path}: training continues with {total - bad} of {total} rows")


def _unlabelled(
    archive: GraphArchive, usable: np.ndarray, path: Path, workspace: Workspace
) -> list[Problem]:
    """Returns the graphs without a target, with line numbers if they come from a table."""
    graphs = np.flatnonzero(~usable).tolist()
    if not is_table(path) or not graphs:
        return [Problem(str(path), f"graph {graph}: no usable target") for graph in graphs]
    rejected = {row["line"] for row in archive.meta.get("rejected", ())}
    table = read_table(path, limits=workspace.limits)
    lines = [line for line in table.lines if line not in rejected]
    return [Problem(str(path), "no usable target", lines[graph]) for graph in graphs]


def _labelled(archive: GraphArchive) -> np.ndarray:
    """Returns a mask of the graphs that have at least one known target."""
    field = archive.fields.get("y")
    if field is None:
        raise DataError("the graphs have no targets (no attribute 'y')")
    if archive.target is None:
        raise DataError("the archive does not say what to predict")
    rows = archive.target.known(field.values.reshape(len(field.values), -1)).any(1)
    if field.level == "graph":
        return np.asarray(rows)
    return np.asarray(np.logical_or.reduceat(rows, archive.node_offsets[:-1]))


def _split(archive: GraphArchive, usable: np.ndarray, config: OwnData) -> GraphArchive:
    given = np.isin(archive.split, range(len(SPLITS)))
    method = config.split_by
    if method is None:
        method = "column" if given.any() and config.folds is None else "random"
    if method == "column":
        if not given.any():
            raise DataError(
                f"{config.dataset}: the data has no split; give its column with --split-column"
            )
        return archive
    options = config.splitting().replace(split_by=method)
    # Unusable graphs are left out, so that the fractions of the split are as requested.
    places = np.flatnonzero(usable)
    split = np.full(len(archive), NO_SPLIT, np.uint8)
    labelled = archive if usable.all() else archive.subset(places)
    split[places] = split_archive(labelled, options).split
    return archive.with_split(split)


def _target(name: str, archive: GraphArchive, metric: str | None) -> Target:
    if archive.target is None:
        raise DataError(f"{name}: the archive does not say what to predict")
    return archive.target.judged(metric)


def _standardised(target: Target, archive: GraphArchive, usable: np.ndarray) -> Target:
    """Returns the target with the units of the training set."""
    field = archive.fields["y"]
    graphs = usable & (archive.split == 0)
    rows = graphs if field.level == "graph" else np.repeat(graphs, archive.num_nodes)
    return target.fitted(field.values[rows])
