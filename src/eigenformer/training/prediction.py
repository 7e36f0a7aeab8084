"""Predicts for new graphs in files: one output row per input row, in the same order."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eigenformer.config import ReadOptions
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.graph_tables import read_graph_tables
from eigenformer.data.molecules import MoleculeGraph
from eigenformer.data.reading import form_of, read_own
from eigenformer.data.tables import is_table, read_rows
from eigenformer.files import remove_leftovers_of, write_atomic
from eigenformer.limits import Limits
from eigenformer.nearest import unknown
from eigenformer.training.features import check_columns

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel

_CHUNK = 1024
_REASON = "reason"


@dataclass(frozen=True)
class PredictionCounts:
    """The number of rows, and the number of rows with a prediction."""

    rows: int
    predicted: int


def predict_file(
    trained: TrainedModel,
    source: str | Path,
    out: str | Path,
    smiles: str | None = None,
    escape_formulas: bool = False,
) -> PredictionCounts:
    """Predicts for a table of molecules or for graphs in any format, and writes a CSV file.

    Args:
        trained: The model.
        source: The table, or an archive or folder of graphs.
        out: The CSV file to write.
        smiles: The column with SMILES, if its name is not the same as in training.
        escape_formulas: Whether to put ``'`` before cells that spreadsheets would read as formulas.
    """
    source, out = Path(source), Path(out)
    if not source.exists():
        raise DataError(Problem(str(source), "there is no such file or folder"))
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():  # checked before any long work
        raise DataError(Problem(str(out), "is a folder; give the name of a file"))
    if not os.access(out.parent, os.W_OK):
        raise DataError(Problem(str(out), "cannot be written to"))
    remove_leftovers_of(out)
    if is_table(source):
        header, rows = _predict_table(trained, source, smiles or trained.input_format.smiles)
    else:
        header, rows = _predict_archive(trained, source)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter="\t" if out.suffix == ".tsv" else ",")
    cell = without_formula if escape_formulas else str
    writer.writerow(map(cell, header))
    count = predicted = 0
    for row in rows:
        writer.writerow(map(cell, row))
        count += 1
        predicted += row[-1] == ""
    write_atomic(out, stream.getvalue().encode("utf-8"))
    return PredictionCounts(count, predicted)


def without_formula(cell: str) -> str:
    """Escapes a cell that a spreadsheet would read as a formula, for example ``=1+2``.

    Such cells begin with ``=``, ``+``, ``-``, ``@``. Numbers are not changed.
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _predict_table(
    trained: TrainedModel, path: Path, smiles: str
) -> tuple[list[str], Iterator[list[str]]]:
    header, rows = _read_rows(path, trained.limits)
    if smiles not in header:
        reason = unknown(f"column '{smiles}'", smiles, header)
        raise DataError(Problem(str(path), f"{reason}; choose one with --smiles", 1))
    if trained.target.of_nodes:
        raise DataError(f"{path}: the model makes predictions for nodes; give an archive of graphs")
    trained.check_molecules()
    added = _free_names([*trained.target.header(), _REASON], header)
    return [*header, *added], _predict_rows(trained, rows, header.index(smiles), len(header))


def _predict_rows(
    trained: TrainedModel,
    rows: list[tuple[list[str], str]],
    column: int,
    width: int,
) -> Iterator[list[str]]:
    """Yields each row with its prediction, or with the reason why it has none; works in chunks."""
    target = trained.target
    names = target.header()
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        graphs: list[MoleculeGraph] = []
        reasons: list[str] = []
        for cells, problem in chunk:
            reason = problem
            if not reason:
                try:
                    graphs.append(trained.molecule(cells[column].strip()))
                except DataError as error:
                    reason = str(error)
            reasons.append(reason)
        found = zip(*_predict_each(trained, trained.archive(graphs)), strict=True) if graphs else ()
        predictions = iter(found)
        for (cells, _), reason in zip(chunk, reasons, strict=True):
            shown = [*cells, *[""] * (width - len(cells))][:width]
            values, told = next(predictions) if not reason else (np.zeros(0), reason)
            yield [*shown, *([""] * len(names) if told else target.cells(values[0])), told]


def _predict_archive(trained: TrainedModel, path: Path) -> tuple[list[str], Iterator[list[str]]]:
    target = trained.target
    if is_archive(path):
        archive = GraphArchive.open(path, check=True)
    else:
        archive = _read_unlabelled(path, trained)
    check_columns(trained.input_format, archive, path)
    values, reasons = _predict_each(trained, archive)
    if reasons and all(reasons):
        raise DataError(Problem(str(path), reasons[0]))
    graph_names = archive.names or [str(i) for i in range(len(archive))]
    nodes, names = target.of_nodes, target.header()
    node_names = archive.node_names
    header = ["graph", *(["node"] if nodes else []), *names, _REASON]

    def rows() -> Iterator[list[str]]:
        for graph, name in enumerate(graph_names):
            for node in range(int(archive.num_nodes[graph]) if nodes else 1):
                called = str(node)
                if node_names is not None:
                    called = node_names[int(archive.node_offsets[graph]) + node]
                place = [name, called] if nodes else [name]
                if reasons[graph]:
                    yield [*place, *[""] * len(names), reasons[graph]]
                else:
                    yield [*place, *target.cells(values[graph][node]), ""]

    return header, rows()


def _predict_each(
    trained: TrainedModel, archive: GraphArchive
) -> tuple[list[np.ndarray], list[str]]:
    """Returns the prediction for each graph, and the reason for each graph without one."""
    sizes = trained.target.rows(archive.num_nodes.tolist())
    try:
        values = trained.predict(archive)
        found = [part.numpy() for part in values.split(sizes)]
        reasons = [""] * len(archive)
    except (ValueError, RuntimeError, MemoryError):  # RuntimeError: PyTorch's memory is exhausted
        found, reasons = [], []
        for graph in range(len(archive)):
            part, reason = np.zeros((0, 0)), ""
            try:
                part = trained.predict(archive.subset([graph])).numpy()
            except (ValueError, RuntimeError, MemoryError) as error:
                reason = _reason(error)
            found.append(part)
            reasons.append(reason)
    return found, [
        reason or ("" if np.isfinite(part).all() else "the prediction is not a finite number")
        for part, reason in zip(found, reasons, strict=True)
    ]


def _reason(error: Exception) -> str:
    """Returns why there is no prediction for a graph that was processed alone, in one line."""
    if isinstance(error, MemoryError):
        return "too large for the memory of this machine"
    lines = str(error).removeprefix("graph 0 of the batch: ").removeprefix("graph 0: ").splitlines()
    return lines[0] if lines else type(error).__name__


def _read_unlabelled(path: Path, trained: TrainedModel) -> GraphArchive:
    """Reads graphs and ignores their targets."""
    if form_of(path) != "tables":
        return read_own(path, limits=trained.limits).archive
    expected = trained.input_format
    options = ReadOptions(undirected=expected.undirected)
    return read_graph_tables(path, options, expected, trained.limits)


def _free_names(names: list[str], taken: Sequence[str]) -> list[str]:
    free: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken or candidate in free:
            candidate, number = f"{name}_{number}", number + 1
        free.append(candidate)
    return free


def _read_rows(path: Path, limits: Limits) -> tuple[list[str], list[tuple[list[str], str]]]:
    """Reads the header, and every row with its unchanged cells and a reason if it is invalid.

    Less strict than reading a table: empty rows and rows of the wrong width are kept.
    """
    header, rows, _ = read_rows(path, limits)
    found = []
    for row in rows:
        reason = ""
        if not any(cell.strip() for cell in row):
            reason = "the row is empty"
        elif len(row) != len(header):
            reason = f"{len(row)} cells, the header has {len(header)}"
        found.append((row, reason))
    return header, found
