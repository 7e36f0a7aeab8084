from __future__ import annotations

import os
import subprocess
import sys

import pytest

from eigenformer.cli import main
from eigenformer.cli.presets import preset_row
from eigenformer.config import load_preset, networks, presets


def test_presets_prints_the_parameter_table(capsys):
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("preset", "network", "layers", "heads", "d", "p"),
        *("parameters", "published", "result", "remark"),
    ]
    rows = {line.split()[0]: line.split(maxsplit=9)[1:] for line in lines[1:]}
    assert len(rows) == len(presets())
    order = [line.split()[1] for line in lines[1:]]
    assert order == sorted(order, key=networks().index)
    zinc = ["eigenformer", "12", "8", "72", "28", "509849", "509849"]
    assert rows["zinc"][:7] == zinc
    assert rows["zinc-gine"][2] == "-"  # no attention, no heads
    assert rows["zinc-feat"][5:7] == ["497481", "479481"]
    assert rows["zinc-feat"][8] == "the paper prints 479481: two digits swapped"
    assert rows["cifar10-feat-quick"][5:7] == ["110346", "110346"]
    assert rows["cifar10-feat-quick"][8] == (
        "not the paper's: cifar10-feat with batch_size 64, epochs 6, warmup_epochs 0.15"
    )


def test_parameters_are_as_many_as_published_or_the_remark_says_why():
    """GPS, GRIT and GatedGCN; edges without features have no vector of their own here."""
    for name in presets():
        preset = load_preset(name)
        paper, counted = preset.paper, int(preset_row(name)[6])
        if preset.model.kind == "eigenformer" or paper.parameters is None:
            continue
        if preset.model.kind == "graphormer":
            assert counted != paper.parameters
            assert "virtual node" in paper.remark
        elif preset.dataset in ("pattern", "cluster"):
            assert abs(counted - paper.parameters) < 100
            assert "no vector for edges without features" in paper.remark
        else:
            assert counted == paper.parameters, name


def test_help_needs_no_pytorch():
    code = (
        "import sys; from eigenformer.cli import main\ntry: main(['--help'])\nexcept SystemExit: "
    )
    code += "assert 'torch' not in sys.modules"
    before = os.times().children_user
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert os.times().children_user - before < 1
    assert "presets" in out.stdout


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "eigenformer", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.startswith("eigenformer ")


def test_unknown_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["presents"])
    assert stop.value.code == 2
    assert "presents" in capsys.readouterr().err
