"""The wheel works in an empty environment without the repository, and make demo in a new one."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run_command(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What a command prints; it must succeed."""
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows of the repository, and nothing that lies about."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    copy = tmp_path_factory.mktemp("source")
    names = run_command("git", "ls-files", "-z", cwd=ROOT).rstrip("\0").split("\0")
    for name in filter(lambda name: (ROOT / name).is_file(), names):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    return copy


@pytest.mark.slow
def test_the_source_distribution_has_what_the_build_needs(source: Path, tmp_path: Path) -> None:
    build = "from setuptools.build_meta import build_sdist; build_sdist(__import__('sys').argv[1])"
    run_command(sys.executable, "-c", build, tmp_path, cwd=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        names = {name.split("/", 1)[-1] for name in content.getnames()}
    for file in (source / "src").rglob("*"):
        if file.is_file() and "egg-info" not in str(file):
            assert str(file.relative_to(source)) in names


@pytest.mark.slow
def test_the_wheel_runs_the_demo_in_an_empty_environment(source: Path, tmp_path: Path) -> None:
    run_command(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ".", cwd=source
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    assert not [name for name in names if name.startswith("tests/")]
    assert "eigenformer/config/preset_files/zinc.yaml" in names
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    constraints = source / "constraints.txt"
    run_command(python, "-m", "pip", "install", "-q", "-c", constraints, wheel, cwd=tmp_path)
    program = tmp_path / "env" / "bin" / "eigenformer"
    small = ["--epochs", "1", "--data.size", "60", "--model.layers", "1", "--cache-dir", "cache"]
    said = run_command(program, "demo", *small, cwd=tmp_path)
    assert "weighted accuracy" in said
    assert (tmp_path / "runs" / "demo" / "model.safetensors").is_file()
    assert "agrees with literal" in run_command(
        program, "doctor", "--cache-dir", "cache", cwd=tmp_path
    )


@pytest.mark.slow
def test_make_demo_sets_everything_up_and_learns(source: Path, tmp_path: Path) -> None:
    run_command("make", "install", cwd=source)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = run_command("make", "demo", cwd=source, EIGENFORMER_CACHE_DIR=str(tmp_path / "cache"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Four minutes of two cores, whatever else the machine does.
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 2 * 4 * 60
    found = dict(re.findall(r"^(Eigenformer|GCN|GIN|majority class) .* ([\d.]+) %$", said, re.M))
    assert found.keys() == {"Eigenformer", "GCN", "GIN", "majority class"}
    assert float(found["Eigenformer"]) > 80
    assert float(found["majority class"]) == 50
    (report,) = re.findall(r"its report in (\S+)", said)
    assert "</html>" in (source / report).read_text("utf-8")
