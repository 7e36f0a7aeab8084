"""From a benchmark's name or the user's own file to what a run trains on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.config import ConfigError, DataConfig, load_preset, presets
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import NO_SPLIT, SPLITS, packed_rows
from eigenformer.data.own import OwnData, split_archive
from eigenformer.data.preparation import prepare, prepare_own
from eigenformer.data.spectra import Spectra
from eigenformer.data.tables import is_table, read_table
from eigenformer.nearest import unknown
from eigenformer.options import MetricName
from eigenformer.reporting import Reporter
from eigenformer.targets import Target

# Where a benchmark is not judged by what is usual for such data.
_BENCHMARK_METRICS: dict[str, MetricName] = {"peptides-func": "average_precision"}
_SHOWN = 20


@dataclass(frozen=True)
class TrainingData:
    """Graphs that are ready for a run.

    Args:
        name: What to call them.
        archive: The graphs, split.
        spectra: Their spectra.
        outputs: What is to be predicted.
        splits: The graphs of each split that take part.
    """

    name: str
    archive: GraphArchive
    spectra: Spectra
    outputs: Target
    splits: dict[str, np.ndarray]

    def dataset(self, split: str) -> GraphDataset:
        """The graphs of one split, or ``all`` of them."""
        known = {**self.splits, "all": np.sort(np.concatenate([*self.splits.values()]))}
        if split not in known:
            raise DataError(unknown(f"split '{split}'", split, known))
        return GraphDataset(self.archive, self.spectra, indices=known[split])

    def targets(self, split: str) -> np.ndarray:
        """The targets of one split, ``[rows, *]``, those of nodes graph after graph."""
        field, graphs = self.archive.fields["y"], self.splits[split]
        if field.level == "graph":
            return field.values[graphs]
        rows, _ = packed_rows(self.archive.node_offsets, graphs)
        return field.values[rows]


def is_benchmark(dataset: str) -> bool:
    """Whether a name means a benchmark, and not a path."""
    return dataset in BENCHMARKS


def data_name(dataset: str) -> str:
    """What to call a benchmark or a file."""
    return dataset if is_benchmark(dataset) else Path(dataset).name.split(".")[0]


def load_data(
    config: DataConfig,
    raw_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    workers: int | None = None,
    report: Reporter | None = None,
) -> TrainingData:
    """Prepares what is not prepared yet, and says which graphs take part.

    Args:
        config: What to load.
        raw_dir: A folder with the benchmarks' raw files (default: ``EIGENFORMER_RAW_DIR``).
        cache_dir: Where prepared graphs go (default: ``EIGENFORMER_CACHE_DIR``).
        workers: Threads (default: all cores).
        report: What to tell whom.
    """
    report = report or Reporter()
    if is_benchmark(config.dataset):
        _reject_own_settings(config)
        prepared = prepare(
            config.dataset,
            raw_dir,
            cache_dir,
            k=config.frequencies,
            size=config.size,
            seed=config.generator_seed,
            official=config.official,
            workers=workers,
            report=report,
        )
        archive, spectra = prepared.archive, prepared.spectra
        usable = np.ones(len(archive), dtype=bool)
        outputs = _outputs(config.dataset, archive, _BENCHMARK_METRICS.get(config.dataset))
    else:
        archive, spectra, usable = _load_own(config, cache_dir, workers, report)
        outputs = _standardised(_outputs(config.dataset, archive, config.metric), archive, usable)
        told = "" if config.task else ", told by the targets' values (--task says otherwise)"
        report.say(f"task: {describe(outputs)}{told}")
    assert spectra is not None
    splits = {name: np.flatnonzero(usable & (archive.split == i)) for i, name in enumerate(SPLITS)}
    if config.limit is not None:
        splits = {name: graphs[: config.limit] for name, graphs in splits.items()}
    return TrainingData(data_name(config.dataset), archive, spectra, outputs, splits)


def describe(outputs: Target) -> str:
    """The former name of :meth:`Target.describe`."""
    return outputs.describe()


def _reject_own_settings(config: DataConfig) -> None:
    default = DataConfig(config.dataset)
    names = (
        *("smiles", "targets", "task", "metric", "split_by", "split_column", "fractions"),
        *("featurizer", "undirected", "max_bad_rows"),
    )
    for name in names:
        if getattr(config, name) != getattr(default, name):
            raise ConfigError(f"data.{name}: for your own data; '{config.dataset}' is a benchmark")


def _load_own(
    config: DataConfig, cache_dir: str | Path | None, workers: int | None, report: Reporter
) -> tuple[GraphArchive, Spectra | None, np.ndarray]:
    path = Path(config.dataset)
    _check_exists(path, config.dataset)
    if config.size is not None or config.generator_seed or config.official:
        raise ConfigError(
            "data.size, data.generator_seed, data.official: for pattern and cluster only"
        )
    if is_table(path) and not config.targets:
        columns = ", ".join(read_table(path).columns)
        raise DataError(f"{path}: which column is to be predicted? Say --target (there: {columns})")
    options = OwnData(
        smiles=config.smiles,
        targets=config.targets,
        split_column=config.split_column,
        task=config.task,
        featurizer=config.featurizer,
        undirected=config.undirected,
    )
    # Another file of the same name, or another target, is another set of graphs.
    place = hashlib.sha256(repr((path.resolve(), options)).encode()).hexdigest()[:8]
    name = None if is_archive(path) else f"{path.name.split('.')[0]}-{place}"
    k = config.frequencies
    prepared = prepare_own(path, options, name, cache_dir, k, workers=workers, report=report)
    usable = _labelled(prepared.archive)
    _report_bad_rows(prepared.archive, usable, path, config.max_bad_rows, report)
    return _split(prepared.archive, usable, config), prepared.spectra, usable


def _check_exists(path: Path, dataset: str) -> None:
    """Raises where there is no such data, and says what was probably meant."""
    if path.exists():
        return
    if path.suffix or len(path.parts) > 1:  # meant as a path, not as a name
        raise DataError(Problem(dataset, "there is no such file or folder"))
    if dataset in presets():
        data = load_preset(dataset).dataset
        raise DataError(f"'{dataset}' is a preset; say  {data} --preset {dataset}")
    near = unknown(f"benchmark '{dataset}'", dataset, BENCHMARKS)
    raise DataError(f"{near}; nor is there such a file or folder")


def _report_bad_rows(
    archive: GraphArchive, usable: np.ndarray, path: Path, most: float, report: Reporter
) -> None:
    """Tells of rows without a graph or a target; raises where their share is above ``most``."""
    unlabelled = _unlabelled(archive, usable, path)
    rejected = [
        Problem(str(path), row["reason"], row["line"]) for row in archive.meta.get("rejected", ())
    ]
    bad, total = len(rejected) + len(unlabelled), len(archive) + len(rejected)
    if bad > most * total:
        problems = sorted([*rejected, *unlabelled], key=lambda problem: problem.line or 0)
        raise DataError(
            f"{path}: {bad} of {total} rows cannot be used ({100 * bad / total:.1f} %), more than "
            f"--max-bad-rows {most:g}; the first ones:\n" + "\n".join(map(str, problems[:_SHOWN]))
        )
    for problem in unlabelled[:_SHOWN]:
        report.notice(str(problem))
    if bad:
        report.notice(f"{path}: training goes on with {total - bad} of {total} rows")


def _unlabelled(archive: GraphArchive, usable: np.ndarray, path: Path) -> list[Problem]:
    """The graphs without a target; of a table, with the line each is on."""
    graphs = np.flatnonzero(~usable).tolist()
    if not is_table(path) or not graphs:
        return [Problem(str(path), f"graph {graph}: no target left") for graph in graphs]
    rejected = {row["line"] for row in archive.meta.get("rejected", ())}
    lines = [line for line in read_table(path).lines if line not in rejected]
    return [Problem(str(path), "no target left", lines[graph]) for graph in graphs]


def _labelled(archive: GraphArchive) -> np.ndarray:
    """Which graphs have a target at all."""
    field = archive.fields.get("y")
    if field is None:
        raise DataError("the graphs have no targets (no attribute 'y')")
    if archive.target is None:
        raise DataError("it is not known what is to be predicted")
    rows = archive.target.known(field.values.reshape(len(field.values), -1)).any(1)
    if field.level == "graph":
        return np.asarray(rows)
    return np.asarray(np.logical_or.reduceat(rows, archive.node_offsets[:-1]))


def _split(archive: GraphArchive, usable: np.ndarray, config: DataConfig) -> GraphArchive:
    given = np.isin(archive.split, range(len(SPLITS)))
    method = config.split_by
    if method is None:
        method = "column" if given.any() else "random"
    if method == "column":
        if not given.any():
            raise DataError(
                f"{config.dataset}: the data carries no split; name the column with --split-column"
            )
        return archive
    options = OwnData(split_by=method, fractions=config.fractions, seed=config.split_seed)
    # Graphs that cannot be used take no part, or the split would be other than asked for.
    places = np.flatnonzero(usable)
    split = np.full(len(archive), NO_SPLIT, np.uint8)
    split[places] = split_archive(archive.subset(places), options).split
    return archive.with_split(split)


def _outputs(name: str, archive: GraphArchive, metric: str | None) -> Target:
    if archive.target is None:
        raise DataError(f"{name}: it is not known what is to be predicted")
    return archive.target.judged(metric)


def _standardised(outputs: Target, archive: GraphArchive, usable: np.ndarray) -> Target:
    """In the units of the training targets."""
    field = archive.fields["y"]
    graphs = usable & (archive.split == 0)
    rows = graphs if field.level == "graph" else np.repeat(graphs, archive.num_nodes)
    return outputs.fitted(field.values[rows])
