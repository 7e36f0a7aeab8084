"""Long tables: the same rows however they are read, split, interrupted or shared."""

from __future__ import annotations

import csv
import gzip
import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from eigenformer import TrainedModel
from eigenformer.cli import main
from eigenformer.data.errors import DataError
from eigenformer.limits import Limits
from eigenformer.pools import Pool
from eigenformer.training import table_prediction
from eigenformer.training.partial_file import PartialFile
from eigenformer.training.prediction import predict_file
from tests.training.samples import read_rows

CELLS = ("O", "N", "F", "S", "c1ccccc1", "C(=O)O", "not a molecule", "")


def write_table(path: Path, count: int) -> None:
    lines = (f"{i},{'C' * (1 + i % 7)}{CELLS[i % len(CELLS)]}\n" for i in range(count))
    path.write_text("id,smiles\n" + "".join(lines))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_prediction, "CHUNK", 8)
    monkeypatch.setattr(table_prediction, "_MANY", 8)


def predict(run: Path, table: Path, out: Path, *options: str) -> None:
    arguments = ["predict", str(run), str(table), "--out", str(out), "--threads", "1", *options]
    assert main(arguments) == 0


def test_the_form_of_a_file_changes_nothing(run: Path, tmp_path: Path, small: None) -> None:
    arrow = pytest.importorskip("pyarrow.csv")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = tmp_path / "m.csv"
    write_table(table, 50)
    predict(run, table, tmp_path / "p.csv", "--workers", "1")
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    parquet.write_table(arrow.read_csv(table), tmp_path / "m.parquet")
    expected = (tmp_path / "p.csv").read_bytes()
    for name in ("m.csv.gz", "m.parquet"):
        predict(run, tmp_path / name, tmp_path / "q.csv", "--workers", "1")
        assert (tmp_path / "q.csv").read_bytes() == expected
    predict(run, table, tmp_path / "p.tsv.gz", "--workers", "1")
    text = gzip.decompress((tmp_path / "p.tsv.gz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))
    assert rows == list(csv.reader(io.StringIO(expected.decode(), newline="")))
    assert [row[0] for row in rows[1:]] == [str(i) for i in range(50)]
    wrong = [row for row in rows[1:] if row[1].endswith("molecule")]
    assert len(wrong) == 6
    assert all(row[-1] == f"'{row[1]}': a SMILES has no blanks" for row in wrong)
    assert not list(tmp_path.glob("*.partial*"))


def test_several_processes_write_the_same(run: Path, tmp_path: Path, small: None) -> None:
    write_table(tmp_path / "m.csv", 60)
    predict(run, tmp_path / "m.csv", tmp_path / "one.csv", "--workers", "1")
    predict(run, tmp_path / "m.csv", tmp_path / "two.csv", "--workers", "2")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_stopped_prediction_continues(
    run: Path,
    tmp_path: Path,
    small: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table(tmp_path / "m.csv", 50)
    out = tmp_path / "p.csv"
    predict(run, tmp_path / "m.csv", tmp_path / "whole.csv", "--workers", "1")
    predicted = table_prediction.RowPredictor.__call__
    calls: list[int] = []

    def stopped(self: table_prediction.RowPredictor, rows: table_prediction.Rows) -> object:
        calls.append(len(rows))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return predicted(self, rows)

    monkeypatch.setattr(table_prediction.RowPredictor, "__call__", stopped)
    command = ["predict", str(run), str(tmp_path / "m.csv"), "--out", str(out), "--workers", "1"]
    assert main(command) == 130
    assert "p.csv.partial: what is done; run the same command" in capsys.readouterr().err
    assert not out.exists()
    partial = tmp_path / "p.csv.partial"
    assert (tmp_path / "whole.csv").read_bytes().startswith(partial.read_bytes())
    with partial.open("ab") as stream:
        stream.write(b"half a ro")  # the process was killed while it wrote
    calls.extend(range(10))
    assert main(command) == 0
    assert sum(calls[14:]) == 50 - 3 * 8  # only the rest
    assert "continuing after 24 rows" in capsys.readouterr().out
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not list(tmp_path.glob("*.partial*"))


def test_other_work_is_not_continued(tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    first = PartialFile(out, "one")
    first.append(b"a\nb\n", 2, 1)
    with pytest.raises(ValueError, match="p.csv.partial: another process is writing it"):
        PartialFile(out, "one")
    first.close()
    again = PartialFile(out, "one")
    assert (again.rows, again.predicted) == (2, 1)
    again.close()
    other = PartialFile(out, "two")
    assert other.rows == 0
    other.append(b"c\n", 1, 1)
    other.finish()
    assert out.read_bytes() == b"c\n"


def test_a_damaged_note_starts_again(tmp_path: Path) -> None:
    first = PartialFile(tmp_path / "p.csv", "one")
    first.append(b"a\n", 1, 1)
    first.close()
    (tmp_path / "p.csv.partial.json").write_text('{"key": "one", "bytes": 99}')
    again = PartialFile(tmp_path / "p.csv", "one")
    assert again.rows == 0
    again.close()
    assert (tmp_path / "p.csv.partial").read_bytes() == b""


def test_damaged_and_exploding_files(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are counted for the progress before any of them is read."""
    table = gzip.compress(b"smiles\n" + b"CCO\n" * 2000)
    (tmp_path / "half.csv.gz").write_bytes(table[: len(table) // 2])
    (tmp_path / "none.csv.gz").write_bytes(b"not packed")
    (tmp_path / "none.parquet").write_bytes(b"not Parquet")
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"smiles\n" + b"\n" * 300_000))
    damaged, limit = "damaged gzip file", "--limits unpacked_bytes=NUMBER"
    for name, message in (
        ("half.csv.gz", damaged),
        ("none.csv.gz", damaged),
        ("none.parquet", "not a Parquet file"),
        ("bomb.csv.gz", limit),
    ):
        out = ["--out", str(tmp_path / "p.csv"), "--limits", "unpacked_bytes=50k"]
        assert main(["predict", str(run), str(tmp_path / name), *out]) == 2
        assert message in capsys.readouterr().err


def test_a_killed_worker_is_one_sentence(
    run: Path, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel kills a process that takes too much memory."""
    monkeypatch.setattr(table_prediction, "_start_worker", partial(os._exit, 1))
    write_table(tmp_path / "m.csv", 60)
    with pytest.raises(DataError, match="a worker process was killed"):
        predict_file(TrainedModel.open(run), tmp_path / "m.csv", tmp_path / "p.csv", pool=Pool(2))


def test_what_makes_other_work(run: Path, tmp_path: Path) -> None:
    """An output is not continued if anything that its rows depend on has changed."""
    write_table(tmp_path / "m.csv", 3)
    trained = TrainedModel.open(run)
    reference = trained.reference
    assert reference.known
    keys = {
        table_prediction._key(other, tmp_path / "m.csv", "smiles")
        for other in (
            trained,
            replace(trained, limits=Limits(atoms=2)),
            replace(trained, input_format=replace(trained.input_format, featurizer="ogb")),
            replace(trained, reference=replace(reference, distances=reference.distances + 1)),
            replace(trained, target=trained.target.replace(mean=[1.0])),
        )
    }
    assert len(keys) == 5


def test_long_cells_make_small_pieces(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_prediction, "_CHARACTERS", 10)
    rows = [[str(number), "C" * number] for number in range(20)]
    chunks = list(table_prediction._chunks(iter(rows)))
    assert [row for chunk in chunks for row in chunk] == rows
    assert [len(chunk) for chunk in chunks[:3]] == [5, 2, 2]


def test_the_length_of_a_parquet_cell_is_limited(run: Path, tmp_path: Path) -> None:
    """One text that is stored once and shown in every row would fill the memory."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"smiles": ["C"] * 50, "note": ["n"] * 49 + ["n" * 101]}
    parquet.write_table(arrow.table(columns), tmp_path / "m.parquet")
    trained = TrainedModel.open(run, limits=Limits(cell_length=100))
    counts = predict_file(trained, tmp_path / "m.parquet", tmp_path / "p.csv")
    assert (counts.rows, counts.predicted) == (50, 49)
    last = read_rows(tmp_path / "p.csv")[-1]
    assert (last["smiles"], last["note"], last["predicted_weight"]) == ("C", "", "")
    assert "the length of a cell exceeds the limit of 100" in last["reason"]


@pytest.mark.slow
def test_killed_processes_lose_no_row(run: Path, tmp_path: Path) -> None:
    """Real processes, killed at several moments, with two workers."""
    table, out = tmp_path / "m.csv", tmp_path / "p.csv"
    write_table(table, 30_000)
    predict(run, table, tmp_path / "whole.csv", "--workers", "1")
    script = [sys.executable, "-m", "eigenformer", "predict", str(run), str(table)]
    script += ["--out", str(out), "--workers", "2"]
    kills = 0
    for _ in range(30):
        process = subprocess.Popen(script, start_new_session=True)
        progress = tmp_path / "p.csv.partial.json"
        before = progress.read_text() if progress.exists() else ""
        while process.poll() is None:
            time.sleep(0.05)
            if progress.exists() and progress.read_text() != before and kills < 4:
                os.kill(process.pid, signal.SIGKILL)  # its workers notice
                kills += 1
                break
        if process.wait() == 0:
            break
    assert kills == 4
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
