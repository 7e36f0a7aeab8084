"""``eigenformer figures``, on real runs and data."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from eigenformer.cli import main
from eigenformer.models.eigenformer import Eigenformer


def figures(*arguments: object) -> int:
    return main(["figures", *map(str, arguments)])


def test_attention(run, tmp_path, capsys):
    out = tmp_path / "attention.svg"
    assert figures("attention", run, "--index", 2, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "The best match of each pattern over 6 graphs of test:" in printed
    assert printed.count("\n| ") == 8
    assert "| distance | 0 |" in printed
    assert "of test graph 2" in printed
    assert "layer 0" in out.read_text("utf-8")


def test_a_run_without_what_is_needed(run, tmp_path, capsys):
    Eigenformer.from_preset("zinc", layers=1).save(tmp_path / "model")
    out = ("--out", tmp_path / "a.svg")
    assert figures("attention", tmp_path / "model", *out) == 2
    assert "the model does not say what it predicts" in capsys.readouterr().err
    assert figures("training", tmp_path / "model", *out) == 2
    assert "not a run folder" in capsys.readouterr().err
    assert figures("attention", run, "--data", "nowhere.csv", *out) == 2
    assert "nowhere.csv: there is no such file or folder" in capsys.readouterr().err
    assert figures("filters", tmp_path / "model", *out) == 0


def test_filters(run, tmp_path, capsys):
    out = tmp_path / "filters.svg"
    assert figures("filters", run, "--out", out) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("What the heads of run learned")
    assert printed.endswith(f"\n\n{out}\n")
    assert "layer 0" in out.read_text("utf-8")
    assert figures("filters", run, "--layer", 0, "--head", 3, "--out", tmp_path / "one.png") == 0
    assert "(layer 0, head 3)" in capsys.readouterr().out


def test_training(run, tmp_path, capsys):
    out = tmp_path / "training.pdf"
    assert figures("training", run, run, "--out", out) == 0
    assert "validation MAE" in capsys.readouterr().out
    assert out.read_bytes().startswith(b"%PDF")


def test_substructures(tmp_path, capsys, raw_dir, cache_dir):
    out = tmp_path / "a.svg"
    assert figures("substructures", "CC(=O)Oc1ccccc1C(=O)O", "--out", out) == 0
    assert "Substructures of CC(=O)Oc1ccccc1C(=O)O" in capsys.readouterr().out
    assert "k = 13: λ = 2.00" in out.read_text("utf-8")
    table = tmp_path / "m.csv"
    table.write_text("smiles\nCC\nCCO\n")
    assert figures("substructures", table, "--index", 1, "--out", out) == 0
    assert "Substructures of CCO" in capsys.readouterr().out
    assert main(["data", "prepare", "zinc", "--no-spectra"]) == 0
    capsys.readouterr()
    assert figures("substructures", "zinc", "--index", 3, "--most", 4, "--out", out) == 0
    assert "graph 3 of zinc" in capsys.readouterr().out


def test_potentials(tmp_path, capsys, raw_dir, cache_dir):
    assert main(["data", "prepare", "zinc", "--no-spectra"]) == 0
    assert main(["data", "prepare", "pattern", "--size", "10"]) == 0
    capsys.readouterr()
    out = tmp_path / "potentials.svg"
    names = ("zinc", cache_dir / "pattern-n10")
    assert figures("potentials", *names, "--limit", 40, "--out", out) == 0
    text = out.read_text("utf-8")
    assert "zinc, 40 graphs" in text
    assert "pattern-n10, 10 graphs" in text


def test_potentials_of_a_table_that_is_not_prepared(tmp_path, capsys):
    table = tmp_path / "m.csv"
    table.write_text("smiles\nCCO\nCCCN\nc1ccccc1C\n")
    assert figures("potentials", table, "--out", tmp_path / "p.svg") == 0
    assert "m.csv" in (tmp_path / "p.svg").read_text("utf-8")


def test_too_large_to_draw(tmp_path, capsys):
    out = tmp_path / "a.svg"
    assert figures("substructures", "C" * 601, "--out", out) == 2
    assert "601 nodes are too many to draw; at most 600" in capsys.readouterr().err
    assert not out.exists()


def test_architecture(run, tmp_path, capsys):
    out = tmp_path / "architecture.svg"
    assert figures("architecture", "zinc-feat", "--out", out) == 0
    assert "497,481 parameters" in capsys.readouterr().out
    assert figures("architecture", run, "--out", out) == 0
    assert "The Eigenformer 'run' without feature attention" in capsys.readouterr().out
    assert "n × 16" in out.read_text("utf-8")


def test_the_file_is_called_like_the_figure(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert figures("training", run) == 0
    assert (tmp_path / "training.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("filters", "{run}", "--layer", 1), "layer 1: the model has 1, counted from 0"),
        (("filters", "{run}", "--head", 8), "head 8: the model has 8, counted from 0"),
        (("filters", "nowhere"), "nowhere: no model here (model.json is missing)"),
        (("attention", "nowhere"), "nowhere: no model here (model.json is missing)"),
        (("attention", "{run}", "--index", 6), "--index 6: test has 6 graphs, counted from 0"),
        (("attention", "{run}", "--split", "tset"), "the nearest is 'test'"),
        (("attention", "{run}", "--limit", 0), "limit: must be at least 1, got 0"),
        (("architecture", "zinc-fest"), "preset 'zinc-fest': unknown; the nearest is 'zinc-feat'"),
        (("architecture", "no/where"), "no/where: no model here (model.json is missing)"),
        (("training", "nowhere"), "nowhere: not a run folder (config.yaml is missing)"),
        (
            ("substructures", "C1CC"),
            "'C1CC': invalid SMILES, and not a path or the name of a dataset",
        ),
        (("substructures", "CCO", "--index", 2), "only files and datasets take an index"),
        (("substructures", "CCO", "--most", 0), "most: must be at least 1, got 0"),
        (("substructures", "mnist"), "mnist: not prepared yet; run  eigenformer data prepare"),
        (("substructures", "no/where.csv"), "no/where.csv: there is no such file or folder"),
        (("potentials", "cifar10"), "cifar10: not prepared yet; run  eigenformer data prepare"),
        (("potentials", "zink"), "'zink': unknown; the nearest is 'zinc'"),
        (("training", "{run}", "--out", "a.gif"), "the ending 'gif': unknown (known: pdf"),
    ],
)
def test_mistakes(run, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert figures(*(str(argument).format(run=run) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert error.startswith("eigenformer figures: ")
    assert message in error
    assert not list(tmp_path.iterdir())
