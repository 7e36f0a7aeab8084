"""Ensembles and cross-validations as tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from eigenformer.experiments.paper_tables import format_result, mean_and_deviation
from eigenformer.experiments.together import CrossValidation, EnsembleResult


def ensemble_table(result: EnsembleResult) -> str:
    """Returns the test metrics of each member and of the ensemble as Markdown."""
    names = list(result.test)
    rows = [(member, *_digits(values, names)) for member, values in result.members.items()]
    rows.append(("**ensemble**", *_digits(result.test, names)))
    return _markdown(("test", *names), rows)


def folds_table(found: CrossValidation) -> str:
    """Returns the metrics of each fold, and their mean and deviation, as Markdown."""
    names = list(next(iter(found.metrics.values())))
    rows = [(run, *_digits(values, names)) for run, values in found.metrics.items()]
    means = []
    for name in names:
        results = mean_and_deviation([values[name] for values in found.metrics.values()])
        means.append(format_result(*results, 4))
    return _markdown(("fold", *names), [*rows, ("**mean ± deviation**", *means)])


def out_of_fold_rows(found: CrossValidation, cell: Callable[[str], str] = str) -> str:
    """Returns every prediction as CSV: each graph once per repeat, in the order of the data.

    Args:
        found: The predictions.
        cell: Applied to every cell.
    """
    target, stream = found.target, io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    truths = [f"true_{name}" for name in target.truth_names]
    writer.writerow(map(cell, ["graph", "repeat", "fold", *truths, *target.header()]))
    for row in found.rows:
        cells = (*target.truth_cells(row.truth), *target.cells(row.prediction))
        writer.writerow(map(cell, [row.name, str(row.repeat), str(row.fold), *cells]))
    return stream.getvalue()


def _digits(values: dict[str, float], names: list[str]) -> list[str]:
    return [f"{values[name]:.4f}" for name in names]


def _markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
