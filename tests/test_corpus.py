"""Every input of the corpus is answered with a sentence, within seconds and without an accident."""

from __future__ import annotations

import ast
import shutil
import time
from pathlib import Path

import pytest

from eigenformer.cli import main
from tests.corpus.cases import CASES
from tests.corpus.own_graphs import OWN
from tests.corpus.runs import ELSEWHERE, RUNS
from tests.data.exploits import MARKER
from tests.fuzz import seeds

_SLOWEST = 10.0
ALL = {**CASES, **RUNS, **OWN}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table and a run."""
    folder = tmp_path_factory.mktemp("desk")
    seeds.prepare(folder)
    return folder


@pytest.mark.parametrize("name", ALL)
def test_every_case_is_answered(
    name: str,
    desk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    case = ALL[name]
    shutil.copytree(desk / "run", tmp_path / "run")
    shutil.copy(desk / "m.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("EIGENFORMER_RAW_DIR", raising=False)
    held = case.write(tmp_path)  # until the command has ended
    start = time.process_time()
    try:
        code = main(case.command.split())
    except SystemExit as stop:  # argparse
        code = stop.code
    seconds = time.process_time() - start
    del held
    said = "".join(capfd.readouterr())
    assert case.says in said
    assert code == case.code
    assert "Traceback" not in said
    assert "--debug" not in said  # how the command line marks an accident
    assert not (tmp_path / MARKER).exists()
    assert seconds < _SLOWEST
    assert case.check(tmp_path)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_no_command_shows_has_a_test(name: str) -> None:
    file, _, test = ELSEWHERE[name].partition("::")
    tree = ast.parse((Path(__file__).parent / file).read_text("utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
