"""Predicts for new graphs in files: one output row per input row, in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.config import ReadOptions
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.graph_tables import read_graph_tables
from eigenformer.data.reading import form_of, read_own
from eigenformer.data.tables import is_table
from eigenformer.files import remove_leftovers_of, write_atomic
from eigenformer.model_folder import CARD, ENSEMBLE, WEIGHTS
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import Reporter
from eigenformer.training.features import check_columns
from eigenformer.training.prediction_form import (
    REASON,
    PredictionCounts,
    PredictionForm,
    check_suffix,
    encoded,
    predict_each,
)
from eigenformer.training.run_folder import CHECKPOINT, CONFIG, METRICS, SUMMARY
from eigenformer.training.table_prediction import predict_table

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel

_OF_A_MODEL = frozenset(
    {WEIGHTS, CARD, ENSEMBLE, CONFIG, METRICS, CHECKPOINT, SUMMARY, "out_of_fold.csv"}
)
"""The names of the files of a model and its run."""


def predict_file(
    trained: TrainedModel,
    source: str | Path,
    out: str | Path,
    smiles: str | None = None,
    escape_formulas: bool = False,
    interval: float | None = None,
    novelty: bool = False,
    pool: Pool = HERE,
    reporter: Reporter | None = None,
) -> PredictionCounts:
    """Predicts for a table of molecules or for graphs in any format, and writes a CSV file.

    Args:
        trained: The model.
        source: The table, or an archive or folder of graphs.
        out: The file to write: ``.csv``, ``.tsv`` or ``.txt``, which may end in ``.gz``.
        smiles: The column with SMILES, if its name is not the same as in training.
        escape_formulas: Whether to put ``'`` before cells that spreadsheets would read as formulas.
        interval: The probability with which intervals, or sets of classes, contain the truth.
        novelty: Whether to write how unlike the training set each graph is.
        pool: Where to predict for a long table.
        reporter: Reports the progress on a table.
    """
    form = PredictionForm.of(trained, interval, novelty)
    source, out = Path(source), Path(out)
    if not source.exists():
        raise DataError(Problem(str(source), "there is no such file or folder"))
    _check_out(out, source, trained.folder)  # before any long work
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise DataError(Problem(str(out), "cannot be written to"))
    remove_leftovers_of(out)
    cell = without_formula if escape_formulas else str
    if is_table(source):
        column = smiles or trained.input_format.smiles
        return predict_table(trained, source, out, column, form, cell, pool, reporter)
    header, rows = _predict_archive(trained, source, form)
    write_atomic(out, encoded(out, [header, *rows], cell))
    return PredictionCounts(len(rows), sum(row[-1] == "" for row in rows))


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


def _check_out(out: Path, source: Path, model: Path | None) -> None:
    """Raises an error if the output would replace the input, the model or a folder."""
    if out.is_dir():
        raise DataError(Problem(str(out), "is a folder; give the name of a file"))
    check_suffix(out)
    if not out.exists():
        return
    place, folder = out.resolve(), source.resolve()
    if out.samefile(source) or (source.is_dir() and place.is_relative_to(folder)):
        what = "the input" if out.samefile(source) else f"a file of the input {source}"
        raise DataError(Problem(str(out), f"is {what}; give another name with --out"))
    if model is not None and place.is_relative_to(model.resolve()) and place.name in _OF_A_MODEL:
        raise DataError(Problem(str(out), "is a file of the model; give another name with --out"))


def _predict_archive(
    trained: TrainedModel, path: Path, form: PredictionForm
) -> tuple[list[str], list[list[str]]]:
    if is_archive(path):
        archive = GraphArchive.open(path, check=True, limits=trained.limits)
    else:
        archive = _read_unlabelled(path, trained)
    check_columns(trained.input_format, archive, path)
    found = predict_each(trained, archive, form)
    if found and all(part.reason for part in found):
        raise DataError(Problem(str(path), found[0].reason))
    graph_names = archive.names or [str(i) for i in range(len(archive))]
    nodes, names = trained.target.of_nodes, form.header()
    node_names = archive.node_names
    header = ["graph", *(["node"] if nodes else []), *names, REASON]

    def rows() -> Iterator[list[str]]:
        for graph, name in enumerate(graph_names):
            for node in range(int(archive.num_nodes[graph]) if nodes else 1):
                called = str(node)
                if node_names is not None:
                    called = node_names[int(archive.node_offsets[graph]) + node]
                place = [name, called] if nodes else [name]
                yield [*place, *form.row(found[graph], node)]

    return header, list(rows())


def _read_unlabelled(path: Path, trained: TrainedModel) -> GraphArchive:
    """Reads graphs and ignores their targets."""
    if form_of(path) != "tables":
        return read_own(path, limits=trained.limits).archive
    expected = trained.input_format
    options = ReadOptions(undirected=expected.undirected)
    return read_graph_tables(path, options, expected, trained.limits)
