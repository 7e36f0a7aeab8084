"""Runs the tests of interpreted*.py, where Triton's interpreter computes on the CPU."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eigenformer

HERE = Path(__file__).parent
ROOT, PACKAGE = HERE.parents[2], Path(eigenformer.__file__).parent

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)

MUTATIONS = {
    "the border of a tile": (
        "tiles.py",
        "inside = (i < nodes)[:, None] & (j < nodes)[None, :]\n    return tl.where",
        "inside = (i < nodes)[:, None] & (j <= nodes)[None, :]\n    return tl.where",
    ),
    "what was summed under a lower maximum": (
        "forward.py",
        "total = total * shrink + tl.sum(x, 1)",
        "total = total + tl.sum(x, 1)",
    ),
    "the sum of a gradient": (
        "backward.py",
        "tl.store(d_importance + k * heads, before + found",
        "tl.store(d_importance + k * heads, found",
    ),
    "the scale of what dropout keeps": ("dropout.py", "0.0, x * keep_scale", "0.0, x"),
    "an edge beside a pair": ("tiles.py", "source == columns, found, -1", "source >= 0, found, -1"),
    "the rows of wide heads": (
        "backward.py",
        "for first in range(0, nodes, ROWS):",
        "for first in range(0, nodes, BLOCK):",
    ),
    "the mean under dropout": (
        "backward.py",
        "weight * d_alpha - alpha * mean[:, None]",
        "weight * (d_alpha - mean[:, None])",
    ),
    "the heads of φ₂'s values": (
        "tiles.py",
        "phi2 = tl.load(importance + k * heads,",
        "phi2 = tl.load(importance + k,",
    ),
    "the heads of φ₁": ("tiles.py", "knots + head * (segments - 1)", "knots"),
    "the head in dropout": ("dropout.py", "mix(a) + head.to(tl.uint32)", "mix(a)"),
    "the graph in dropout": (
        "dropout.py",
        ".to(tl.uint32)) + graph.to(tl.uint32)",
        ".to(tl.uint32))",
    ),
    "the rest of a product": ("tiles.py", "return (total + rest) * scale", "return total * scale"),
}
"""Places that are easy to get wrong, each with a wrong version of it."""


def interpret(*options: str, source: Path = PACKAGE.parent) -> subprocess.CompletedProcess[str]:
    """Runs tests of interpreted*.py with the package in the folder ``source``."""
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", *options]
    command += [str(HERE / name) for name in ("interpreted.py", "interpreted_in_use.py")]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)


def test_the_kernel_equals_the_oracle() -> None:
    done = interpret("-m", "not slow")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_kernel_equals_the_oracle_in_more_cases() -> None:
    done = interpret("-m", "slow")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutations_are_caught(mutation: tuple[str, str, str], tmp_path: Path) -> None:
    file, right, wrong = mutation
    shutil.copytree(PACKAGE, tmp_path / "eigenformer")
    path = tmp_path / "eigenformer" / "kernels" / "triton" / file
    text = path.read_text("utf-8")
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong), "utf-8")
    done = interpret("-k", "equals_the_literal_kernel or last_digit", source=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
