"""``eigenformer figures``, on real runs and data."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from eigenformer.cli import main


def figures(*arguments: object) -> int:
    return main(["figures", *map(str, arguments)])


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
        (("training", "nowhere"), "nowhere: not a run folder (config.yaml is missing)"),
        (("training", "{run}", "--out", "a.gif"), "the ending 'gif': unknown; the nearest is"),
    ],
)
def test_mistakes(run, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert figures(*(str(argument).format(run=run) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert error.startswith("eigenformer figures: ")
    assert message in error
    assert not list(tmp_path.iterdir())
