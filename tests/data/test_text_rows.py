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


def test_a_line_is_never_cut_in_silence(tmp_path):
    """Only the beginning of a line that is too long is read: its last cell would be another."""
    path = tmp_path / "t.csv"
    header = ",".join(f"c{i}" for i in range(18))
    path.write_text(f"{header}\n" + ",".join(["9" * 99] * 16) + ",1234567890,\n" + header + "\n")
    bad, good = _rows(path, cell_length=100)
    assert "the length of a line exceeds 1,600" in bad[2]
    assert good == (3, header.split(","), "")
