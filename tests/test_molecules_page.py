"""Every command of docs/molecules.md runs, with shorter trainings."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np

from eigenformer.cli import main
from tests.training.samples import read_rows

ROOT = Path(__file__).parent.parent
_SHORT = [
    *("--epochs", "1", "--limit", "40", "--threads", "1"),
    *("--model.layers", "1", "--model.hidden_dim", "16", "--model.phi_width", "4"),
]


def _shorter(command: list[str]) -> list[str]:
    if command[0] not in ("train", "search"):
        return command
    fewer = [*command, *_SHORT]
    for option in ("--ensemble", "--folds", "--trials"):
        if option in fewer:
            fewer[fewer.index(option) + 1] = "2"
            fewer += ["--side-by-side", "1"]
    return fewer


def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    page = (ROOT / "docs" / "molecules.md").read_text("utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", page, re.S | re.M)
    commands = [shlex.split(line) for line in "".join(blocks).splitlines()]
    assert len(commands) == 14
    for program, *command in commands:
        assert program == "eigenformer"
        if command[0] == "predict":  # forty validation rows would be too few for some levels
            command = [part if part != "0.9" else "0.8" for part in command]
        assert main(_shorter(command)) == 0, command
    (row, *_) = read_rows(tmp_path / "runs" / "new.csv")
    assert float(row["low_logp"]) < float(row["predicted_logp"]) < float(row["high_logp"])
    assert 0 <= float(row["novelty"]) <= 1
    with np.load(tmp_path / "runs" / "atoms.npz") as arrays:
        assert arrays["embeddings"].shape == (len(arrays["node"]), 16)
    assert "Intervals that contain the truth" in (tmp_path / "runs" / "report.html").read_text()
    assert float(read_rows(tmp_path / "runs" / "ensemble.csv")[0]["spread_logp"]) > 0
    assert (tmp_path / "runs" / "folds" / "out_of_fold.csv").exists()
    assert (tmp_path / "runs" / "search" / "search.html").exists()
