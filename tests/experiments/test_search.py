"""A search from the command line: its trials, its page, and what is left when it is killed."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.config import ConfigError
from eigenformer.experiments.search_space import SPACE, nested, searched
from eigenformer.targets import NumberTarget
from eigenformer.training.run_folder import RunFolder

pytest.importorskip("optuna")
SMALL = [
    *("--batch-size", "16", "--model.layers", "1", "--model.hidden_dim", "16"),
    *("--model.head_layers", "1", "--model.pooling", "mean"),
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("rdkit")
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    smiles = ["C" * n + end for n in range(2, 12) for end in ("O", "N", "F", "Cl")]
    rows = "".join(f"{text},{len(text) / 3}\n" for text in smiles)
    Path("m.csv").write_text("smiles,size\n" + rows)
    return "m.csv"


def search(table: str, trials: int, *options: str) -> int:
    words = ["search", table, "--target", "size", "--trials", str(trials), "--out", "found"]
    return main([*words, "--side-by-side", "1", *SMALL, *options])


def states() -> dict[str, str]:
    return {
        folder.name: RunFolder(folder).read_summary()["state"]
        for folder in sorted(Path("found").glob("trial????"))
    }


def test_a_search_goes_on_and_leaves_the_best_settings(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(table, 2, "--epochs", "1") == 0
    assert search(table, 3, "--epochs", "1") == 0
    assert states() == dict.fromkeys(("trial0000", "trial0001", "trial0002"), "finished")
    rows = [line.split(" | ") for line in Path("found/table.md").read_text().splitlines()[2:]]
    values = [float(row[1]) for row in rows]
    assert values == sorted(values)
    best = Path("found") / f"trial{int(rows[0][0].lstrip('| ')):04d}"
    assert RunFolder(best).read_summary()["best_validation"] == pytest.approx(values[0], abs=1e-4)
    assert Path("found/config.yaml").read_text() == (best / "config.yaml").read_text()
    page = Path("found/search.html").read_text("utf-8")
    assert "training.learning_rate" in page
    assert "model.layers" not in page  # it was given
    capsys.readouterr()
    assert main(["train", "--config", "found/config.yaml", "--out", "again"]) == 0
    assert main(["search", table, "--target", "size", "--out", "found", "--model.kind", "gin"]) == 2
    assert "has the trials of another search" in capsys.readouterr().err


@pytest.mark.slow
def test_a_hopeless_trial_is_stopped(table: str) -> None:
    """A learning rate far below those of the other trials."""
    import optuna

    options = ("--epochs", "10", "--training.weight_decay", "0", "--model.dropout", "0")
    storage = {"study_name": "eigenformer", "storage": "sqlite:///found/trials.sqlite"}
    assert search(table, 1, *options) == 0
    study = optuna.load_study(**storage)
    for rate in (3e-3, 2.9e-3, 2.8e-3, 2.7e-3, 1e-4):
        study.enqueue_trial({"training.learning_rate": rate})
    assert search(table, 6, *options) == 0
    last = study.get_trials()[5]
    assert last.params["training.learning_rate"] == 1e-4
    assert last.state == optuna.trial.TrialState.PRUNED
    assert len(RunFolder(Path("found/trial0005")).read_metrics()) < 10
    assert "| pruned |" in Path("found/table.md").read_text()


@pytest.mark.slow
def test_a_killed_search_has_every_trial_once(table: str) -> None:
    words = [sys.executable, "-m", "eigenformer", "search", table, "--target", "size"]
    words += ["--trials", "4", "--out", "found", "--side-by-side", "2", *SMALL, "--epochs", "40"]
    # Two workers: both are in the middle of a trial when the whole group is killed.
    process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)
    for _ in range(1200):
        if len(list(Path("found").glob("trial????/metrics.csv"))) == 2:
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "finished" not in states().values()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert list(states()) == ["trial0000", "trial0001", *sorted(states())[2:]]
    assert list(states().values()) == ["finished"] * 4
    rows = Path("found/table.md").read_text().splitlines()[2:]
    assert len(rows) == 4
    assert not any(" failed " in row for row in rows)


@pytest.mark.slow
def test_trials_that_were_lost_with_a_machine_are_run_again(table: str) -> None:
    """A trial of this very command that nobody runs any more, as after the loss of a node."""
    import optuna

    Path("found").mkdir()
    storage = f"sqlite:///{Path('found/trials.sqlite').resolve()}"
    study = optuna.create_study(storage=storage, study_name="eigenformer", direction="minimize")
    lost = study.ask()
    lost.suggest_float("training.learning_rate", 1e-4, 3e-3, log=True)
    lost.set_user_attr("host", platform.node())
    lost.set_user_attr("process", os.getpid())
    words = ["search", table, "--target", "size", "--trials", "2", "--out", "found"]
    assert main([*words, "--side-by-side", "2", *SMALL, "--epochs", "1"]) == 0
    assert states() == dict.fromkeys(("trial0000", "trial0001"), "finished")
    rows = Path("found/table.md").read_text().splitlines()[2:]
    assert len(rows) == 2
    assert not any(" running " in row for row in rows)


def test_settings_that_are_given_are_not_searched() -> None:
    numbers = NumberTarget(names=("y",))
    assert searched({}, numbers) == SPACE
    wanted = {"training": {"learning_rate": 1e-3}}
    left_out = [p.place for p in SPACE if p not in searched(wanted, numbers)]
    assert left_out == ["training.learning_rate"]
    nodes = NumberTarget(names=("y",), level="node")
    assert "model.pooling" not in [p.place for p in searched({}, nodes)]
    everything = nested({parameter.place: 1 for parameter in SPACE})
    with pytest.raises(ConfigError, match="nothing is left to search"):
        searched(everything, numbers)


def test_a_storage_that_does_not_exist_is_one_sentence(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(table, 1, "--storage", "nothing://here") == 2
    error = capsys.readouterr().err
    assert "storage: cannot be used" in error
    assert "Traceback" not in error
