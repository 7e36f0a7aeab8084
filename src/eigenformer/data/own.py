"""The user's own graphs: how to read them, and the readers for each form they come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from eigenformer.config import ConfigError, Settings
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import Field, Task, TaskKind
from eigenformer.data.progress import Reporter
from eigenformer.data.splits import FRACTIONS, check_fractions

SplitMethod = Literal["given", "random", "stratified", "scaffold"]


@dataclass(frozen=True)
class OwnData(Settings):
    """How to read a table of molecules, three plain tables, a folder of graphs or of pictures.

    Args:
        smiles: The column with SMILES.
        targets: The columns to predict: of the table of molecules, of ``graphs``, of ``nodes``.
        identifier: A column whose values must not repeat, to name molecules by.
        split_column: A column that says ``train``, ``val`` or ``test``.
        split: How to split; ``given`` takes what the data says.
        fractions: Sizes of train, val and test.
        seed: Of the split.
        task: What the targets are; None to tell by their values.
        featurizer: How molecules become graphs: ``ogb`` or ``zinc``.
        undirected: For plain tables: each edge is listed once and goes both ways.
    """

    smiles: str = "smiles"
    targets: tuple[str, ...] = ()
    identifier: str | None = None
    split_column: str | None = None
    split: SplitMethod = "given"
    fractions: tuple[float, ...] = FRACTIONS
    seed: int = 0
    task: TaskKind | None = None
    featurizer: str = "ogb"
    undirected: bool = False

    def check(self) -> None:
        try:
            check_fractions(self.fractions)
        except DataError as error:
            raise ConfigError(str(error)) from None
        if self.split != "given" and self.split_column is not None:
            raise ConfigError(f"split: '{self.split}' and split_column exclude each other")


@dataclass(frozen=True)
class Rejected:
    """A row that gave no graph: where it is, why, and what it said."""

    problem: Problem
    row: dict[str, str]


@dataclass(frozen=True)
class Import:
    """What was read: the graphs, and the rows that gave none."""

    archive: GraphArchive
    rejected: tuple[Rejected, ...] = ()


def own_files(path: Path) -> list[Path]:
    """The files that a table or a folder of graphs consists of."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file or folder"))
    return [path]


def read_own(
    path: str | Path, options: OwnData | None = None, report: Reporter | None = None
) -> Import:
    """Reads a table of molecules, or a folder of plain tables, PyG graphs or pictures."""
    from eigenformer.data.graph_tables import is_graph_tables, read_graph_tables
    from eigenformer.data.images import is_image_folder, read_image_folder
    from eigenformer.data.molecule_table import read_molecule_table
    from eigenformer.data.tables import is_table

    path, options = Path(path), options or OwnData()
    if is_table(path):
        return read_molecule_table(path, options, report)
    if not path.is_dir():
        raise DataError(Problem(str(path), "there is no such file or folder"))
    if is_graph_tables(path):
        return Import(split_archive(read_graph_tables(path, options), options))
    if any(path.glob("*.pt")):
        return Import(split_archive(read_data_folder(path), options))
    if is_image_folder(path):
        return Import(split_archive(read_image_folder(path, report=report), options))
    raise DataError(
        Problem(
            str(path),
            "not graphs: expected a table of SMILES (.csv, .tsv, .parquet), or a folder with the "
            "tables graphs, nodes and edges, with .pt files of PyG Data, or with pictures",
        )
    )


def read_data_folder(path: Path) -> GraphArchive:
    """A folder of ``.pt`` files, each one PyG ``Data`` or a list of them, opened without code."""
    import pickle

    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    graphs: list[Data] = []
    names: list[str] = []
    for file in sorted(path.glob("*.pt")):
        try:
            with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
                loaded = torch.load(file, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
            refused = "asks for more than tensors" if "GLOBAL" in str(error) else "damaged"
            raise DataError(Problem(str(file), f"not a file of PyG Data ({refused})")) from None
        several = isinstance(loaded, list | tuple)
        for number, graph in enumerate(loaded if several else [loaded]):
            graphs.append(graph)
            names.append(f"{file.stem}/{number}" if several else file.stem)
    archive = GraphArchive.from_data_list(graphs, names=names)
    field = archive.fields.get("y")
    if field is None or field.level == "edge":
        return archive
    return archive.with_task(infer_task(field.values, (), None, field.level))


def split_archive(archive: GraphArchive, options: OwnData) -> GraphArchive:
    """The archive with the split that was asked for."""
    from eigenformer.data.splits import random_split, scaffold_split, stratified_split

    if options.split == "given":
        return archive
    if options.split == "random":
        split = random_split(len(archive), options.fractions, options.seed)
    elif options.split == "stratified":
        field = archive.fields.get("y")
        if field is None or field.level != "graph":
            raise DataError("split: 'stratified' needs targets of graphs")
        split = stratified_split(field.values, options.fractions, options.seed)
    else:
        smiles = archive.meta.get("smiles") or archive.names
        if "featurizer" not in archive.meta or smiles is None:
            raise DataError("split: 'scaffold' needs molecules")
        split = scaffold_split(smiles, options.fractions)
    return archive.with_split(split)


def infer_task(
    values: np.ndarray,
    names: Sequence[str],
    kind: TaskKind | None,
    level: Literal["graph", "node"] = "graph",
) -> Task:
    """What the targets are, told by their values: zeros and ones are labels, all else numbers."""
    count = 1 if values.ndim == 1 else values.shape[1]
    if kind is None:
        if values.dtype.kind in "iu" and values.ndim == 1 and values.min(initial=0) >= 0:
            kind = "multiclass" if values.max(initial=0) > 1 else "binary"
        else:
            known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
            labels = bool(np.isin(known, (0, 1)).all())
            kind = ("multilabel" if count > 1 else "binary") if labels else "regression"
    outputs = int(values.max(initial=0)) + 1 if kind == "multiclass" else count
    return Task(level, kind, outputs, tuple(names))


def target_field(
    values: np.ndarray, classes: Sequence[str], names: Sequence[str], options: OwnData, level: str
) -> tuple[Field, Task]:
    """Targets as a field and a task: class numbers, or float32 columns with NaN for missing."""
    at: Literal["graph", "node"] = "node" if level == "node" else "graph"
    if options.task == "multiclass":
        long = np.dtype(np.int64)
        task = Task(at, "multiclass", len(classes), tuple(classes))
        return Field(at, values.astype(long).reshape(-1), long), task
    task = infer_task(values, names, options.task, at)
    single = np.dtype(np.float32)
    # One target is one number per graph, as everywhere in PyG; several are a row.
    columns = values[:, 0] if values.shape[1] == 1 else values
    return Field(at, columns.astype(single), single), replace(task, num_outputs=values.shape[1])
