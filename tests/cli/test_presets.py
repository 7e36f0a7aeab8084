from __future__ import annotations

import os
import subprocess
import sys

import pytest

from eigenformer.cli import main
from eigenformer.config import presets


def test_presets_prints_the_parameter_table(capsys):
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "preset",
        "layers",
        "heads",
        "d",
        "p",
        "parameters",
        "paper",
        "remark",
    ]
    rows = {line.split()[0]: line.split(maxsplit=7)[1:] for line in lines[1:]}
    assert len(rows) == len(presets())
    assert rows["zinc"] == ["12", "8", "72", "28", "509849", "509849"]
    assert rows["zinc-feat"][4:] == [
        "497481",
        "479481",
        "the paper prints 479481: two digits swapped",
    ]
    assert rows["cifar10-feat-quick"][4:] == [
        "110346",
        "110346",
        "not the paper's: cifar10-feat with batch_size 64, epochs 6, warmup_epochs 0.15",
    ]


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
