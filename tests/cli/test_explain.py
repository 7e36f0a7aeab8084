"""``eigenformer explain``, end to end."""

from __future__ import annotations

import pytest

from eigenformer.cli import main


def test_a_page_for_a_molecule(run, tmp_path, capsys):
    out = tmp_path / "pages" / "ethanol.html"
    assert main(["explain", str(run), "CCO", "--out", str(out)]) == 0
    assert f"CCO: {out}" in capsys.readouterr().out
    page = out.read_text("utf-8")
    assert "<h1>CCO</h1>" in page
    assert page.count("data-node=") == 3
    assert "<dt>weight</dt>" in page


def test_a_page_for_a_graph_of_the_runs_own(run, tmp_path):
    out = tmp_path / "e.html"
    assert main(["explain", str(run), "test", "--index", "1", "--out", str(out)]) == 0
    assert "true: " in out.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["C1CC"], "'C1CC'"),
        (["nowhere/graphs.csv"], "no such file"),
        (["CC", "--index", "3"], "one molecule"),
        (["test", "--index", "99"], "graph 99 of 'test': there are 6"),
        (["C" * 700], "too many to draw"),
    ],
)
def test_mistakes_are_explained(run, arguments, message, tmp_path, capsys):
    out = tmp_path / "e.html"
    assert main(["explain", str(run), *arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
