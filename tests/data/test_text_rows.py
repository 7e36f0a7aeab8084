from __future__ import annotations

import pytest

from eigenformer.data import DataError
from eigenformer.data.tables import open_rows, read_table
from eigenformer.limits import Limits


def _rows(path, **limits):
    """The line, the cells and the reason of each row, also of those that cannot be read."""
    with open_rows(path, Limits(**limits), keep_bad=True) as stream:
        return [(n, list(row), getattr(row, "reason", "")) for n, row in stream.rows]


@pytest.mark.parametrize(
    ("data", "cells", "bad"),
    [
        (b'1,"2\n3,4\n5,6\n', [["1", "2"], ["3", "4"], ["5", "6"]], {2: "not closed"}),
        (b'1,"2"x\n3,4\n', [["1", "2x"], ["3", "4"]], {2: "closed too early"}),
        (b'1,"2\n3,"4"\n5,"6\n7"\n', None, {2: "not closed"}),
        (b'1,"2\n3,4\n5,"6"x\n7,8\n', None, {2: "too early", 4: "too early"}),
        (b"1,\xe4\n3,4\n", [["1", "\ufffd"], ["3", "4"]], {2: "not UTF-8"}),
        (b'1,"\xe4\nb"\n3,4\n', None, {2: "not UTF-8"}),
        (b'1,"' + b"x" * 50 + b"\n" + b"y" * 60 + b'"\n3,4\n', None, {2: "length of a cell"}),
    ],
)
def test_rows_that_cannot_be_read_keep_their_place(tmp_path, data, cells, bad):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + data)
    rows = _rows(path, cell_length=100)
    for line, row, reason in rows:
        assert bad.get(line, "") in reason, (line, reason)
        assert bool(reason) == (line in bad), (line, row, reason)
    assert cells is None or [row for _, row, _ in rows] == cells
    with pytest.raises(DataError, match=f"line {min(bad)}: .*{bad[min(bad)]}"):
        read_table(path, limits=Limits(cell_length=100))


def test_two_open_quotes_do_not_swallow_the_rows_between_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b,c\n1,2,"5 in\n3,4,5\n6,7,6"\n8,9,"two\nlines, of one cell"\n')
    first, second, third, last = _rows(path)
    assert "line 2: a quote is not closed: the cell goes on to line 4" in f"line 2: {first[2]}"
    assert [row[0] for row in (first, second, third, last)] == [2, 3, 4, 5]
    assert second[1:] == (["3", "4", "5"], "")
    assert third[1:] == (["6", "7", '6"'], "")
    assert last[1:] == (["8", "9", "two\nlines, of one cell"], "")
    with pytest.raises(DataError, match="line 2: a quote is not closed"):
        read_table(path)


def test_lines_that_end_as_on_old_machines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r1,2\r3," + b"x" * 400 + b"\r5,6\r7,8\r")
    rows = _rows(path, cell_length=20)
    assert [row for _, row, _ in rows] == [["1", "2"], ["3", ""], ["5", "6"], ["7", "8"]]
    assert [bool(reason) for _, _, reason in rows] == [False, True, False, False]


def test_a_bad_row_without_any_text_keeps_its_place(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n" + "x" * 50 + "\n2\n")
    table = read_table(path, limits=Limits(cell_length=20), keep_bad=True)
    assert [row.problem.line for row in table.ragged] == [3]


def test_a_line_is_never_cut_in_silence(tmp_path):
    """Only the beginning of a line that is too long is read: its last cell would be another."""
    path = tmp_path / "t.csv"
    header = ",".join(f"c{i}" for i in range(18))
    path.write_text(f"{header}\n" + ",".join(["9" * 99] * 16) + ",1234567890,\n" + header + "\n")
    bad, good = _rows(path, cell_length=100)
    assert "the length of a line exceeds 1,600" in bad[2]
    assert good == (3, header.split(","), "")
