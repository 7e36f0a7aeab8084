"""The commands around training: evaluate, predict, runs, reproduce, table, demo."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from eigenformer import TrainedModel, from_smiles
from eigenformer.cli import main
from eigenformer.config import load_preset
from eigenformer.data.archive import GraphArchive
from eigenformer.experiments.paper_tables import paper_table
from eigenformer.export import inputs_of
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, read_rows, write_table


def test_evaluate_repeats_the_runs_own_figure(run, capsys):
    assert main(["evaluate", str(run)]) == 0
    value = float(capsys.readouterr().out.split("test mae ")[1].split()[0])
    assert value == pytest.approx(RunFolder(run).read_summary()["test"], abs=1e-6)
    assert main(["evaluate", str(run), "--split", "val"]) == 0
    value = float(capsys.readouterr().out.split("val mae ")[1].split()[0])
    assert value == pytest.approx(RunFolder(run).read_summary()["best_validation"], abs=1e-6)


def test_evaluate_a_folder_with_a_model_only(run, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.safetensors", "model.json"):
        shutil.copy(run / name, tmp_path)
    given = ["evaluate", str(tmp_path), "--data", str(table)]
    assert main(given) == 0
    assert "all mae" in capsys.readouterr().out  # without its run, it does not know this file
    assert main([*given, "--split", "test"]) == 0
    assert "test mae" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "no such file" in capsys.readouterr().err


def test_evaluate_on_other_data(run, table, tmp_path, capsys):
    """Two classes of three, in another order, and numbers that look like labels."""
    out = tmp_path / "classes"
    assert main(["train", str(table), "--target", "kind", "--out", str(out), *SMALL]) == 0
    rows = read_rows(table)
    part = write_table(tmp_path / "part.csv", [row for row in rows if row["kind"] != "acid"])
    assert main(["predict", str(out), str(part), "--out", str(tmp_path / "p.csv")]) == 0
    found = read_rows(tmp_path / "p.csv")
    right = sum(row["predicted_class"] == row["kind"] for row in found) / len(found)
    capsys.readouterr()
    assert main(["evaluate", str(out), "--data", str(part)]) == 0  # all of it
    printed = capsys.readouterr().out
    assert float(printed.split("all accuracy ")[1].split()[0]) == pytest.approx(right, abs=1e-6)
    assert f"({len(found)} graphs)" in printed
    other = write_table(tmp_path / "other.csv", [{**row, "kind": "salt"} for row in rows])
    assert main(["evaluate", str(out), "--data", str(other)]) == 2
    assert "class 'salt': unknown" in capsys.readouterr().err
    few = write_table(tmp_path / "few.csv", [{**row, "weight": 1} for row in rows[:3]])
    assert main(["evaluate", str(run), "--data", str(few), "--split", "all"]) == 0
    figure = capsys.readouterr().out
    assert "all mae" in figure
    renamed = [{"molecule": row["smiles"], "mass": 1} for row in rows[:3]]
    columns = ["--smiles", "molecule", "--target", "mass"]
    data = ["--data", str(write_table(tmp_path / "renamed.csv", renamed))]
    assert main(["evaluate", str(run), *data, *columns]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == figure.splitlines()[-3:]


def test_evaluate_nothing(tmp_path, run, capsys):
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "no model here" in capsys.readouterr().err
    assert main(["evaluate", str(run), "--split", "tests"]) == 2
    assert "the nearest is 'test'" in capsys.readouterr().err


def test_predict_keeps_every_row_in_its_place(run, tmp_path, capsys):
    table = tmp_path / "new.csv"
    table.write_text(
        'name,smiles,weight,note\na,CCO,1,"x, y"\nb,C1CC,,\nc,,3,\n\nd,CCN\ne,c1ccccc1O,oops,z\n',
        "utf-8",
    )
    out = tmp_path / "predictions.csv"
    assert main(["predict", str(run), str(table), "--out", str(out)]) == 0
    assert "2 of 6 rows" in capsys.readouterr().out
    rows = read_rows(out)
    assert list(rows[0]) == ["name", "smiles", "weight", "note", "predicted_weight", "reason"]
    assert [row["name"] for row in rows] == ["a", "b", "c", "", "d", "e"]
    assert rows[0]["note"] == "x, y"
    assert [bool(row["predicted_weight"]) for row in rows] == [True, *[False] * 4, True]
    assert [bool(row["reason"]) for row in rows] == [False, *[True] * 4, False]
    alone = tmp_path / "alone.csv"
    alone.write_text("smiles\nc1ccccc1O\n")
    assert main(["predict", str(run), str(alone), "--out", str(out)]) == 0
    expected = float(rows[5]["predicted_weight"])
    assert float(read_rows(out)[0]["predicted_weight"]) == pytest.approx(expected, rel=1e-4)


def test_predict_for_tables_with_and_without_their_targets(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    names = [f"g{i}" for i in range(10)]
    edges = "".join(f"{name},0,1\n" for name in names)
    (tmp_path / "mine" / "graphs.csv").write_text("graph\n" + "\n".join(names) + "\n")
    (tmp_path / "mine" / "edges.csv").write_text("graph,source,target\n" + edges)
    nodes = tmp_path / "mine" / "nodes.csv"
    rows = [(name, node, node * 0.5, node) for name in names for node in (0, 1)]
    nodes.write_text("graph,node,f,label\n" + "".join("{},{},{},{}\n".format(*r) for r in rows))
    command = ["train", "mine", "--target", "label", "--epochs", "1", "--out", "run", *SMALL]
    assert main([*command, "--cache-dir", "cache"]) == 0
    assert main(["predict", "run", "mine", "--out", "with.csv"]) == 0
    nodes.write_text("graph,node,f\n" + "".join("{},{},{}\n".format(*r) for r in rows))
    assert main(["predict", "run", "mine", "--out", "without.csv"]) == 0
    assert len(read_rows(tmp_path / "with.csv")) == 20
    assert read_rows(tmp_path / "with.csv") == read_rows(tmp_path / "without.csv")
    nodes.write_text("graph,node,g,label\n" + "".join("{},{},{},{}\n".format(*r) for r in rows))
    for command in (["predict", "run", "mine"], ["evaluate", "run", "--data", "mine"]):
        capsys.readouterr()
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "mine: the features of nodes differ from those of the training data (f)" in said
        assert "Missing: f; unknown: g." in said


def test_predict_says_what_is_missing(run, tmp_path, capsys):
    table = tmp_path / "new.csv"
    table.write_text("molecule\nCC\n")
    assert main(["predict", str(run), str(table), "--out", str(tmp_path / "out.csv")]) == 2
    assert "column 'smiles'" in capsys.readouterr().err
    out = ["--out", str(tmp_path / "out.csv")]
    assert main(["predict", str(run), str(table), *out, "--smiles", "molecule"]) == 0


def test_predict_says_at_once_that_it_cannot_write(run, table, tmp_path, capsys):
    assert main(["predict", str(run), str(table), "--out", str(tmp_path)]) == 2
    assert "is a folder; give the name of a file" in capsys.readouterr().err


def test_predictions_are_in_the_users_units(table, tmp_path):
    """Targets far from zero, and a model that has not learnt: their mean is what remains."""
    rows = read_rows(table)
    large = tmp_path / "large.csv"
    large.write_text(
        "smiles,y\n" + "".join(f"{r['smiles']},{1e6 + i}\n" for i, r in enumerate(rows))
    )
    arguments = [*SMALL, "--lr", "1e-9", "--epochs", "1"]
    assert (
        main(["train", str(large), "--target", "y", "--out", str(tmp_path / "r"), *arguments]) == 0
    )
    out = tmp_path / "p.csv"
    assert main(["predict", str(tmp_path / "r"), str(large), "--out", str(out)]) == 0
    for row in read_rows(out):
        assert float(row["predicted_y"]) == pytest.approx(1e6, rel=1e-3)


def test_runs(run, capsys):
    assert main(["runs", str(run.parent)]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert "parameters" in header
    assert row.split()[:5] == ["run", "molecules.csv", "eigenformer", "molecules", "0"]
    assert row.endswith("finished")
    assert main(["runs", str(run / "nowhere")]) == 2


_TINY = [
    *("--epochs", "1", "--batch-size", "4", "--threads", "1", "--data.size", "30"),
    *("--model.layers", "1", "--model.hidden_dim", "16", "--model.phi_width", "4"),
]


def test_reproduce_picks_up_where_it_was_stopped(tmp_path, capsys):
    command = ["reproduce", "pattern", "--out", str(tmp_path), *_TINY]
    assert main([*command, "--seeds", "0"]) == 0
    assert "the paper: 86.68" in capsys.readouterr().out
    first = (tmp_path / "pattern-seed0" / "model.safetensors").stat().st_mtime_ns
    assert main([*command, "--seeds", "0", "1"]) == 0
    out = capsys.readouterr().out
    assert "2 seeds; not the paper's full schedule" in out
    assert " ± " in out
    assert (tmp_path / "pattern-seed0" / "model.safetensors").stat().st_mtime_ns == first
    assert main([*command, "--seeds", "0", "--lr", "0.1"]) == 2
    assert "other settings" in capsys.readouterr().err
    # Small runs are no results of the benchmark.
    assert main(["table", str(tmp_path)]) == 0
    assert "ours" not in capsys.readouterr().out


def test_table_has_the_papers_rows_and_ours(run, tmp_path, capsys):
    for seed, test in ((0, 0.08), (1, 0.1)):
        folder = tmp_path / f"seed{seed}"
        shutil.copytree(run, folder)
        summary = RunFolder(folder).read_summary()
        changes = {"dataset": "zinc", "preset": "zinc", "seed": seed, "test": test}
        changes |= {"epochs": 2000, "epochs_planned": 2000}
        RunFolder(folder).write_summary({**summary, **changes})
        config = RunFolder(folder).read_config()
        preset = load_preset("zinc")
        sections = {"model": preset.model.to_dict(), "training": preset.training.to_dict()}
        sections["data"] = {"dataset": "zinc", "kind": "benchmark"}
        RunFolder(folder).write_config(config.replace(**sections, preset="zinc", patience=None))
    out = tmp_path / "table.md"
    assert main(["table", str(tmp_path), "--out", str(out)]) == 0
    text = out.read_text("utf-8")
    assert "| GRIT | 0.059 ± 0.002 | 98.108 ± 0.111 |" in text
    assert "| Eigenformer | 0.077 | 97.142 |" in text
    assert "| **Eigenformer, ours** | 0.090 ± 0.014 (2 seeds) | - |" in text
    assert text.count("| --- |") >= 2


def test_the_papers_tables_are_complete():
    first, second = paper_table("benchmarking-gnns"), paper_table("long-range")
    assert (len(first["rows"]), len(second["rows"])) == (22, 12)
    assert first["rows"]["Eigenformer (feat.)"]["cluster"] == [77.456]
    assert second["rows"]["GPS"]["peptides-struct"] == [0.25, 0.0012]


def test_demo(tmp_path, capsys, cache_dir):
    out = tmp_path / "demo"
    arguments = [*_TINY[2:], "--epochs", "1"]
    assert main(["demo", "--out", str(out), *arguments]) == 0
    said = capsys.readouterr().out
    for name in ("weighted_accuracy", "Eigenformer ", "GCN ", "GIN ", "majority class "):
        assert name in said
    assert "Eigenformer" in (out / "report.html").read_text("utf-8")
    assert main(["predict", str(out), str(out), "--out", str(tmp_path / "p.csv")]) == 2
    assert main(["demo", "--out", str(out)]) == 2
    # An archive of graphs: one row per node.
    graphs = cache_dir / "pattern-n30"
    assert main(["predict", str(out), str(graphs), "--out", str(tmp_path / "p.csv")]) == 0
    rows = read_rows(tmp_path / "p.csv")
    assert list(rows[0]) == ["graph", "node", "probability_in the pattern", "reason"]
    assert len(rows) == GraphArchive.open(graphs).num_nodes.sum()


def test_help_is_quick_and_loads_no_pytorch():
    code = (
        "import sys\n"
        "from eigenformer.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'torch_geometric', 'lightning', 'numpy'} & set(sys.modules)\n"
    )
    for arguments in (["--help"], ["train", "--help"], ["figures", "--help"]):
        before = os.times()
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
        after = os.times()
        # Processor time: on a busy machine the clock says little.
        seconds = after.children_user + after.children_system
        seconds -= before.children_user + before.children_system
        assert seconds < 1 or arguments != ["--help"]


def test_a_terminal_that_is_not_utf8_shows_question_marks(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="ascii"))
    with pytest.raises(SystemExit) as stopped:
        main(["figures", "--help"])
    sys.stdout.flush()
    assert stopped.value.code == 0
    assert b"what heads and filters learned: ?? over" in written.getvalue()


def test_an_exported_model_predicts_as_the_model_does(run, tmp_path, capsys):
    out = tmp_path / "m.pt2"
    assert main(["export", str(run), "--out", str(out)]) == 0
    assert f"{out}: graph regression (weight), for one graph" in capsys.readouterr().out
    about = {"eigenformer.json": ""}
    program = torch.export.load(out, extra_files=about).module()
    told = json.loads(about["eigenformer.json"])
    assert told["outputs"] == ["weight"]
    data = from_smiles("CC(=O)Nc1ccc(O)cc1", featurizer=told["input_format"]["featurizer"])
    expected = TrainedModel.open(run).predict(["CC(=O)Nc1ccc(O)cc1"])
    assert torch.allclose(program(*inputs_of(data)), expected, atol=1e-4)
    assert main(["export", str(run), "--out", str(tmp_path / "m.onnx")]) == 2
    assert ".pt2 files" in capsys.readouterr().err
