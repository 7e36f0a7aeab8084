"""Files of a stranger, given to the commands: one sentence, and nothing in them runs."""

from __future__ import annotations

import csv
import shutil

import pytest

from eigenformer.cli import main
from eigenformer.training.run_folder import RunFolder
from tests.data.exploits import MARKER, cluster_data, saved


@pytest.mark.parametrize("command", ["prepare", "train", "predict", "explain", "resume"])
def test_nothing_runs(run, tmp_path, capsys, command):
    copy, graphs = tmp_path / "run", tmp_path / "graphs"
    shutil.copytree(run, copy)
    graphs.mkdir()
    evil = saved([cluster_data(tmp_path)])
    (graphs / "a.pt").write_bytes(evil)
    (copy / "last.ckpt").write_bytes(evil)
    summary = RunFolder(copy).read_summary()
    RunFolder(copy).write_summary({**summary, "state": "interrupted"})
    out = ["--out", str(tmp_path / "out")]
    arguments = {
        "prepare": ["data", "prepare", str(graphs)],
        "train": ["train", str(graphs), *out],
        "predict": ["predict", str(copy), str(graphs), "--out", str(tmp_path / "out.csv")],
        "explain": ["explain", str(copy), str(graphs), *out],
        "resume": ["train", "--resume", str(copy)],
    }[command]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert ("last.ckpt: damaged" if command == "resume" else "a.pt: not a file of PyG") in error
    assert "Traceback" not in error
    assert not (tmp_path / MARKER).exists()


CELLS = ["=1+1", "+x", "-x", "@x", "\tx", "-1+cmd|' /C calc'!A0", "-1.5", "+2e3", "x=1", ""]


@pytest.mark.parametrize("option", [[], ["--escape-formulas"]])
def test_formulas_are_escaped_on_request(run, tmp_path, option):
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    with table.open("w", newline="", encoding="utf-8") as stream:
        rows = [["smiles", "=note"], *(["CCO", cell] for cell in CELLS), ["=C", "bad"]]
        csv.writer(stream).writerows(rows)
    assert main(["predict", str(run), str(table), "--out", str(out), *option]) == 0
    with out.open(newline="", encoding="utf-8") as stream:
        header, *written = csv.reader(stream)
    found = [row[1] for row in written[: len(CELLS)]]
    if option:
        assert header[1] == "'=note"
        assert found == [*(f"'{cell}" for cell in CELLS[:6]), *CELLS[6:]]
        assert written[-1][0] == "'=C"
    else:
        assert header[1] == "=note"
        assert found == CELLS
    assert all(float(row[2]) for row in written[: len(CELLS)])
