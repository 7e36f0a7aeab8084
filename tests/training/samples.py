"""Small real data for the tests of training."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from eigenformer.training.run_folder import RunFolder

SMALL = [
    *("--epochs", "3", "--batch-size", "16", "--threads", "1"),
    *("--model.layers", "1", "--model.hidden_dim", "16", "--model.phi_width", "4"),
]
"""A model that trains in no time."""


def molecules() -> list[tuple[str, float]]:
    """Sixty molecules and a number that depends on their structure: atoms, counted by weight."""
    chains = ["C" * n for n in range(2, 12)]
    ends = {"O": 2.0, "N": 1.5, "Cl": 3.0, "C(=O)O": 5.0, "c1ccccc1": 6.0, "C#N": 2.5}
    return [(chain + end, len(chain) + value) for chain in chains for end, value in ends.items()]


def write_table(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def molecule_rows() -> list[dict[str, object]]:
    return [
        {
            "id": f"m{number}",
            "smiles": smiles,
            "weight": value,
            "long": int(len(smiles) > 9),
            "kind": "acid" if smiles.endswith("O)O") else "ring" if "c1" in smiles else "other",
        }
        for number, (smiles, value) in enumerate(molecules())
    ]


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def start(*arguments: object, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """The program in a process of its own, which hears Ctrl-C also where the tests do not."""
    return subprocess.Popen(
        [sys.executable, "-m", "eigenformer", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def finish(*arguments: object, cwd: Path, **environment: str) -> tuple[int, str]:
    process = start(*arguments, cwd=cwd, **environment)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def wait_for_epochs(process: subprocess.Popen[str], out: Path, epochs: int) -> None:
    """Until a run has that many behind it."""
    for _ in range(3000):
        if (out / "metrics.csv").exists() and len(RunFolder(out).read_metrics()) >= epochs:
            return
        assert process.poll() is None, process.stdout.read()  # type: ignore[union-attr]
        time.sleep(0.02)
    raise AssertionError("no epoch was finished")
