from __future__ import annotations

import numpy as np
import pytest

from eigenformer.data import DataError
from eigenformer.data.tables import Table
from eigenformer.data.target_columns import TargetColumns, in_single_precision, values_target

NAN = float("nan")


def table(**columns):
    rows = len(next(iter(columns.values())))
    return Table("t.csv", {k: list(v) for k, v in columns.items()}, list(range(2, rows + 2)))


def read(kind, **columns):
    targets = TargetColumns(table(**columns), tuple(columns), kind)
    rows = len(next(iter(columns.values())))
    return targets.field(np.array([targets.read(row) for row in range(rows)]), "graph")


@pytest.mark.parametrize(
    ("cells", "names", "numbers"),
    [
        (["10.0", "2.0", "1.0"], ("1", "2", "10"), [2, 1, 0]),
        (["10", "2", "-1", "2.0"], ("-1", "2", "10"), [2, 1, 0, 1]),
        (["0.5", "10", "2"], ("0.5", "2", "10"), [0, 2, 1]),
        ([" b", "a", "b "], ("a", "b"), [1, 0, 1]),
        (["x1", "10", "9"], ("10", "9", "x1"), [2, 0, 1]),
    ],
)
def test_classes_are_in_the_order_of_numbers_or_of_the_alphabet(cells, names, numbers):
    field, task = read("multiclass", a=cells)
    assert task.names == names
    assert field.values.tolist() == numbers
    assert field.dtype == np.int64


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2", "3"] * 6, "multiclass"),
        (["1.0", "2.0", "", "3.0"] * 6, "multiclass"),  # as pandas writes them beside a gap
        (["-1", "1"] * 6, "multiclass"),
        (["0", "1"] * 6, "binary"),
        (["1", "2", "3"], "regression"),  # three rows, three values
        (["1", "2", "2.5"] * 6, "regression"),
        ([str(i % 11) for i in range(200)], "regression"),
        (["1", "2", "inf"] * 6, "regression"),
    ],
)
def test_few_whole_numbers_are_classes(cells, kind):
    targets = TargetColumns(table(a=cells), ("a",), None)
    values = np.array([float(cell) for cell in cells if cell])
    found = targets.kind or values_target(values, ("a",), None).kind
    assert found == kind
    assert TargetColumns(table(a=cells), ("a",), "regression").kind == "regression"


def test_words_are_classes_and_truth_is_a_label():
    assert read(None, a=["red", "blue", "3"])[1].kind == "multiclass"
    field, task = read(None, a=["True", "False", ""])
    assert task.kind == "binary"
    np.testing.assert_array_equal(field.values, [1, 0, NAN])


@pytest.mark.parametrize(
    ("kind", "columns", "message"),
    [
        ("binary", {"a": ["0", "2"]}, "a: '2' is neither 0 nor 1"),
        ("multilabel", {"a": ["0"], "b": ["0.5"]}, "b: '0.5' is neither 0 nor 1"),
        ("binary", {"a": ["0"], "b": ["1"]}, "'binary' takes exactly one target"),
        ("multiclass", {"a": ["0"], "b": ["1"]}, "'multiclass' takes exactly one target"),
        ("multiclass", {"a": ["x", "?"]}, "a: missing class"),
        (None, {"a": ["1e39", "1e40"]}, "a: '1e39' exceeds single precision"),
        (None, {"a": ["1", "2"], "b": ["", "NA"]}, r"t\.csv, line 1: b: no row has a value"),
        ("regression", {"a": ["1", "1e39"]}, "a: '1e39' exceeds single precision"),
    ],
)
def test_what_is_no_target(kind, columns, message):
    with pytest.raises(DataError, match=message):
        read(kind, **columns)


@pytest.mark.parametrize(
    ("values", "kind", "outputs"),
    [
        (np.array([0, 1, 1]), "binary", 1),
        (np.array([0, 4, 2]), "multiclass", 5),
        (np.array([0.0, 1.0, np.nan]), "binary", 1),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), "multilabel", 2),
        (np.array([[0.5, 1.0]]), "regression", 2),
        (np.array([1.5, 2]), "regression", 1),
        (np.array([True, False]), "binary", 1),
    ],
)
def test_tasks_told_by_their_values(values, kind, outputs):
    task = values_target(values, (), None)
    assert (task.kind, task.num_outputs) == (kind, outputs)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([0, 2]), "binary"),
        (np.array([[0.0, 0.5]]), "multilabel"),
        (np.array([[0.0, 1.0]]), "binary"),
        (np.array([0.0, 1.0]), "multiclass"),
        (np.array([-1, 1]), "multiclass"),
    ],
)
def test_a_task_that_the_values_do_not_allow(values, kind):
    with pytest.raises(DataError, match=f"task: '{kind}'"):
        values_target(values, (), kind)


def test_numbers_that_single_precision_would_make_equal_keep_their_digits():
    large = np.array([[1e8 + 0.001], [1e8 + 0.002], [np.nan]])
    assert np.array_equal(in_single_precision(large), large, equal_nan=True)
    for values in (large - 1e8, np.full((3, 1), 0.1), np.full((2, 1), np.nan)):
        assert in_single_precision(values).dtype == np.float32
