"""The library: instruction sets, dropout masks, threads, memory, sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from eigenformer.kernels.native import library
from tests.kernels.native.cases import Case
from tests.kernels.native.test_kernel import check

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["baseline", "x86_64_v3", "x86_64_v4"])
def test_every_instruction_set_is_exact(name: str) -> None:
    try:
        library().use_instructions(name)
    except ValueError as error:
        pytest.skip(str(error))
    assert library().instructions == name
    for seed in range(6):
        check(Case.random(seed, largest=60))


def test_unknown_instruction_set_is_an_error() -> None:
    before = library().instructions
    with pytest.raises(ValueError, match="'mmx' was not compiled"):
        library().use_instructions("mmx")
    assert library().instructions == before


def test_dropout_mask_is_fair_and_independent() -> None:
    keep = library().dropout(torch.tensor([64] * 8), 16, 0.3, seed=123).view(16, 8, 64, 64)
    dropped = (keep == 0).double()
    assert torch.equal(keep.unique(), torch.tensor([0.0, 1 / (1 - 0.3)]))
    total = dropped.numel()
    assert abs(float(dropped.mean()) - 0.3) < 4 * (0.21 / total) ** 0.5
    # Neighbours in any direction, and the transposed pair, tell nothing about each other.
    for shifted in (
        dropped.roll(1, 0),
        dropped.roll(1, 1),
        dropped.roll(1, 2),
        dropped.roll(1, 3),
        dropped.mT.roll(1, 3),
        (library().dropout(torch.tensor([64] * 8), 16, 0.3, 124) == 0).double().view_as(dropped),
    ):
        both = float(((dropped - 0.3) * (shifted - 0.3)).mean()) / 0.21
        assert abs(both) < 5 / total**0.5


OFFSETS = torch.tensor([0, 2, 5])
ROWS = torch.ones(13)


def test_longest_row() -> None:
    rows = torch.tensor([1.0, 2, 3, 4, 0, 0, 1, 1, 9, 0, 0, 1, 2])
    assert library().longest_row(OFFSETS, OFFSETS, rows) == 82.0


@pytest.mark.parametrize(
    ("nodes", "frequencies", "rows"),
    [
        (OFFSETS.int(), OFFSETS, ROWS),
        (OFFSETS, OFFSETS.int(), ROWS),
        (OFFSETS, OFFSETS.float(), ROWS),
        (OFFSETS, OFFSETS[:2], ROWS),
        (OFFSETS[:0], OFFSETS[:0], ROWS),
        (OFFSETS[:1], OFFSETS[:1], ROWS),
        (OFFSETS[None], OFFSETS[None], ROWS),
        (OFFSETS, OFFSETS, ROWS.double()),
        (OFFSETS, OFFSETS, ROWS[1:]),
        (OFFSETS, OFFSETS, torch.ones(14)),
        (OFFSETS, OFFSETS, ROWS[:0]),
        (OFFSETS, OFFSETS, torch.ones(26)[::2]),
        (OFFSETS, OFFSETS, ROWS[None]),
        (OFFSETS + 1, OFFSETS, ROWS),
        (OFFSETS.flip(0), OFFSETS, ROWS),
        (torch.tensor([0, 2, -(2**63)]), OFFSETS, ROWS),
        (OFFSETS, torch.tensor([0, 2**62, 2**63 - 1]), ROWS),
        (torch.tensor([0, 2**62, 2**63 - 1]), OFFSETS, ROWS),
        (torch.tensor([0, 2**62, 2**63 - 1]), OFFSETS * 0, ROWS),
    ],
)
def test_bad_rows_are_errors(nodes: Tensor, frequencies: Tensor, rows: Tensor) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        library().longest_row(nodes, frequencies, rows)


def test_rows_without_frequencies_take_no_time() -> None:
    nodes = torch.tensor([0, 2**62, 2**63 - 1])
    assert library().longest_row(nodes, OFFSETS * 0, ROWS[:0]) == 0.0


def run_python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_one_openmp_runtime() -> None:
    code = """
import torch
from eigenformer.kernels.native import library, ops
torch.set_num_threads(2)
from eigenformer.kernels import NativeAttention
from tests.kernels.native.cases import Case, Example
example = Example.of(Case(sizes=[200, 100], threads=2))
example.results(NativeAttention(example.graphs), None, torch.tensor(0))
names = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
print(library().shares_threads, len([n for n in names if "gomp" in n or "omp5" in n]))
"""
    output = run_python(code, PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    assert output.split() == ["True", "1"]


@pytest.mark.slow
def test_4096_nodes_train_in_little_memory() -> None:
    code = """
import resource, torch
from torch_geometric.data import Data
from eigenformer import Eigenformer, LaplacianSpectrum
n = 4096
edges = torch.randint(n, (2, 3 * n))
data = Data(x=torch.randint(21, (n, 1)), edge_index=edges, edge_attr=torch.randint(1, 4, (3 * n,)))
data = LaplacianSpectrum(num_frequencies=64)(data)
model = Eigenformer.from_preset("zinc", backend="native")
model(data).sum().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    assert int(run_python(code)) / 2**20 < 3


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_with_sanitizers(tmp_path: Path) -> None:
    """The same tests on a build that reports every bad address and every undefined result."""
    for name in ("src", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tmp_path)
    sanitizers = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -O1 -g"
    environment = {
        **os.environ,
        "EIGENFORMER_NATIVE_FLAGS": sanitizers,
        "PYTHONPATH": str(tmp_path / "src"),
    }
    build = [sys.executable, "setup.py", "build_ext", "--inplace"]
    subprocess.run(build, cwd=tmp_path, env=environment, check=True, capture_output=True)
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan", "libubsan")
    ]
    environment |= {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    chosen = (
        "equals_the_literal or bad_ or same_bits or in_parts or instruction or hostile or pieces"
    )
    test = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    test += ["-m", "not slow", "-k", chosen, "tests/kernels/native"]
    result = subprocess.run(test, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert " passed" in result.stdout  # and not: all skipped, because the library did not load
