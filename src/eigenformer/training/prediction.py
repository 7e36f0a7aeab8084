"""Predicts for new graphs in files: one output row per input row, in the same order."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.data.each_graph import EachGraph, read_each_graph
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.tables import is_table
from eigenformer.files import remove_leftovers_of, write_atomic
from eigenformer.model_folder import CARD, ENSEMBLE, WEIGHTS
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import Reporter
from eigenformer.training.features import check_columns
from eigenformer.training.found import Found
from eigenformer.training.output import (
    REASON,
    PredictionCounts,
    TextOutput,
    check_suffix,
    encoded,
)
from eigenformer.training.prediction_form import PredictionForm
from eigenformer.training.run_folder import CHECKPOINT, CONFIG, METRICS, SUMMARY
from eigenformer.training.table_prediction import Form, Made, predict_table

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
    check_places(source, out)  # before any long work
    cell = without_formula if escape_formulas else str
    if is_table(source):
        column = smiles or trained.input_format.smiles

        def open_output(names: list[str], key: str) -> TextOutput:
            # An output with escaped formulas is other work.
            return TextOutput(out, names, f"{key}{cell('=')}", cell)

        return predict_table(trained, source, column, form, open_output, pool, reporter)
    names, piece = of_archive(trained, source, form)
    write_atomic(out, encoded(out, [names, *piece.text()], cell))
    return piece.counts


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


def check_places(
    source: Path, out: Path, what: str = "predictions", others: Sequence[str] = ()
) -> None:
    """Raises an error if there is no input, or if the output cannot or should not be written.

    Makes the folder of the output. An output must not replace the input, a folder, or a file of a
    model, and its name must say how to write it; see :func:`check_suffix`.
    """
    if not source.exists():
        raise DataError(Problem(str(source), "there is no such file or folder"))
    if out.is_dir():
        raise DataError(Problem(str(out), "is a folder; give the name of a file"))
    check_suffix(out, what, others)
    if out.exists():
        _check_replaced(out, source)
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK):
        raise DataError(Problem(str(out), "cannot be written to"))
    remove_leftovers_of(out)


def _check_replaced(out: Path, source: Path) -> None:
    place, folder = out.resolve(), source.resolve()
    if out.samefile(source) or (source.is_dir() and place.is_relative_to(folder)):
        what = "the input" if out.samefile(source) else f"a file of the input {source}"
        raise DataError(Problem(str(out), f"is {what}; give another name with --out"))
    if place.name in _OF_A_MODEL and any(
        (place.parent / name).exists() for name in (CARD, ENSEMBLE)
    ):
        raise DataError(Problem(str(out), "is a file of a model; give another name with --out"))


def of_archive(trained: TrainedModel, path: Path, form: Form[Made]) -> tuple[list[str], Made]:
    """Computes for graphs in any format. Returns the names of all columns, and the rows."""
    each = read_each_graph(path, trained.input_format, trained.limits)
    archive = each.archive
    check_columns(trained.input_format, archive, path)
    found = iter(form.each(trained, archive))
    parts = [Found.none(reason) if reason else next(found) for reason in each.reasons]
    if parts and all(part.reason for part in parts):
        raise DataError(Problem(str(path), parts[0].reason))
    rows = [[name] for name in each.names]
    return ["graph", *form.header(), REASON], form.piece(rows, parts, _node_names(each))


def _node_names(each: EachGraph) -> list[Sequence[str]] | None:
    """Returns the names of the nodes of each graph, none for a graph that cannot be read."""
    archive = each.archive
    if archive.node_names is None:
        return None
    ends = archive.node_offsets.tolist()
    names = iter([archive.node_names[i:j] for i, j in itertools.pairwise(ends)])
    return [() if reason else next(names) for reason in each.reasons]
