"""``eigenformer explain``, end to end."""

from __future__ import annotations

import pytest

from eigenformer.cli import main
from eigenformer.config import BenchmarkData, InputFormat
from eigenformer.model_folder import ModelCard, save_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import NumberTarget


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


def test_atoms_that_no_training_had_are_named(tmp_path):
    model = Eigenformer.from_preset("zinc", layers=1)
    data = BenchmarkData("zinc")
    expected = InputFormat(featurizer="zinc", unknown_type=21)
    save_model(
        tmp_path / "m", model, ModelCard(model.config, NumberTarget(names=("y",)), expected, data)
    )
    for smiles, told in (("CC[Na]", True), ("CCO", False)):
        out = tmp_path / "e.html"
        assert main(["explain", str(tmp_path / "m"), smiles, "--out", str(out)]) == 0
        assert ("had no atoms like" in out.read_text("utf-8")) == told


def test_a_page_is_html(run, tmp_path, capsys):
    assert main(["explain", str(run), "CCO", "--out", str(tmp_path / "e.png")]) == 2
    assert "ends in .html" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["C1CC"], "'C1CC'"),
        (["nowhere/graphs.csv"], "no such file"),
        (["CC", "--index", "3"], "a SMILES is one graph"),
        (["test", "--index", "99"], "graph 99: 'test' has 6 graphs"),
        (["C" * 700], "too many to draw"),
    ],
)
def test_mistakes_are_explained(run, arguments, message, tmp_path, capsys):
    out = tmp_path / "e.html"
    assert main(["explain", str(run), *arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_contributions_on_the_page(run, tmp_path, capsys):
    out = tmp_path / "e.html"
    command = ["explain", str(run), "CCO", "--out", str(out), "--attribution"]
    assert main([*command, "occlusion", "gradients", "--output", "weight"]) == 0
    page = out.read_text("utf-8")
    assert "if it is removed" in page
    assert "by integrated gradients" in page
    assert page.count("data-node=") == 3  # only the drawing of the heads has buttons
    for wrong, message in (
        (["occlusoin"], "attribution 'occlusoin': unknown; the nearest is 'occlusion'"),
        (["occlusion", "--output", "wieght"], "output 'wieght': unknown; the nearest is 'weight'"),
    ):
        assert main([*command, *wrong]) == 2
        assert message in capsys.readouterr().err
    assert main([*command[:-1], "--output", "weight"]) == 2
    assert "only for attribution; choose a method" in capsys.readouterr().err
