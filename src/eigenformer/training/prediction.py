"""Predicts for new graphs in files: one output row per input row, in the same order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.data.each_graph import read_each_graph
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.tables import is_table
from eigenformer.files import remove_leftovers_of, write_atomic
from eigenformer.model_folder import CARD, ENSEMBLE, WEIGHTS
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import Reporter
from eigenformer.training.features import check_columns
from eigenformer.training.prediction_form import (
    REASON,
    Found,
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
    _check_out(out, source)  # before any long work
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


def _check_out(out: Path, source: Path) -> None:
    """Raises an error if the output would replace the input, a folder, or a file of a model."""
    if out.is_dir():
        raise DataError(Problem(str(out), "is a folder; give the name of a file"))
    check_suffix(out)
    if not out.exists():
        return
    place, folder = out.resolve(), source.resolve()
    if out.samefile(source) or (source.is_dir() and place.is_relative_to(folder)):
        what = "the input" if out.samefile(source) else f"a file of the input {source}"
        raise DataError(Problem(str(out), f"is {what}; give another name with --out"))
    if place.name in _OF_A_MODEL and any(
        (place.parent / name).exists() for name in (CARD, ENSEMBLE)
    ):
        raise DataError(Problem(str(out), "is a file of a model; give another name with --out"))


def _predict_archive(
    trained: TrainedModel, path: Path, form: PredictionForm
) -> tuple[list[str], list[list[str]]]:
    each = read_each_graph(path, trained.input_format, trained.limits)
    archive = each.archive
    check_columns(trained.input_format, archive, path)
    found = iter(predict_each(trained, archive, form))
    parts = [Found.none(reason) if reason else next(found) for reason in each.reasons]
    if parts and all(part.reason for part in parts):
        raise DataError(Problem(str(path), parts[0].reason))
    nodes, names = trained.target.of_nodes, form.header()
    header = ["graph", *(["node"] if nodes else []), *names, REASON]
    numbers = iter(range(len(archive)))  # of the graphs in the archive
    rows: list[list[str]] = []
    for name, reason, part in zip(each.names, each.reasons, parts, strict=True):
        if reason:  # how many nodes the graph has is not known
            rows.append([name, *([""] if nodes else []), *form.row(part)])
            continue
        graph = next(numbers)
        for node in range(int(archive.num_nodes[graph]) if nodes else 1):
            called = str(node)
            if archive.node_names is not None:
                called = archive.node_names[int(archive.node_offsets[graph]) + node]
            place = [name, called] if nodes else [name]
            rows.append([*place, *form.row(part, node)])
    return header, rows
