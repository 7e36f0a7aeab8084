"""Shared work comes back once and in order, also from a cluster that loses a machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eigenformer.cli import main
from eigenformer.pools import HERE, Pool, RayExecutor
from eigenformer.training import table_prediction
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, molecule_rows
from tests.training.samples import write_table as write_targets
from tests.training.test_table_prediction import predict, write_table


def nothing() -> None: ...


def where(seconds: float, value: int) -> tuple[int, str]:
    time.sleep(seconds)
    return value, os.getcwd()


def fail(reason: str) -> None:
    raise ValueError(reason)


def test_a_pool_has_a_worker_per_core():
    assert Pool.resolve() == Pool(os.cpu_count() or 1)
    assert Pool.resolve(3) == Pool(3)
    assert Pool.resolve(1) == HERE


def test_processes_of_this_machine():
    with Pool(2).open(nothing) as workers:
        futures = [workers.submit(partial(where, 0.0), value) for value in range(5)]
        assert [future.result() for future in futures] == [(i, os.getcwd()) for i in range(5)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a small table."""
    folder = tmp_path_factory.mktemp("pools")
    table, out = write_targets(folder / "m.csv", molecule_rows()), folder / "run"
    assert main(["train", str(table), "--target", "weight", "--out", str(out), *SMALL]) == 0
    return out


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense"])
def test_no_cluster_is_one_sentence(address, tmp_path, run, capsys):
    pytest.importorskip("ray")
    write_table(tmp_path / "m.csv", 3)
    command = ["predict", str(run), str(tmp_path / "m.csv"), "--out", str(tmp_path / "p.csv")]
    assert main([*command, "--ray", address]) == 2
    error = capsys.readouterr().err
    assert f"no Ray cluster at '{address}'" in error
    assert "Traceback" not in error


def test_ray_is_for_several_runs(tmp_path, capsys):
    write_targets(tmp_path / "m.csv", molecule_rows())
    for option in (["--ray", "auto"], ["--side-by-side", "2"]):
        command = ["train", str(tmp_path / "m.csv"), "--target", "weight", *option]
        assert main(command) == 2
        assert f"{option[0]}: only with --ensemble or --folds" in capsys.readouterr().err


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of two machines with two cores each, on this one."""
    pytest.importorskip("ray")
    import ray
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)  # all addresses are 127.0.0.1
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else a busy machine hardly runs them
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    made.second = made.add_node(num_cpus=2)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
def test_a_cluster_behaves_like_processes(cluster):
    assert Pool.resolve(None, cluster.address) == Pool(4, cluster.address)
    with RayExecutor(cluster.address) as workers:
        work = partial(where, 0.0)
        futures = [workers.submit(work, value) for value in range(8)]
        assert [future.result() for future in futures] == [(i, os.getcwd()) for i in range(8)]
        with pytest.raises(ValueError, match="as it was said"):
            workers.submit(fail, "as it was said").result()


@pytest.mark.slow
def test_a_killed_machine_loses_no_row(cluster, run, tmp_path, monkeypatch):
    monkeypatch.setattr(table_prediction, "CHUNK", 256)
    table, out = tmp_path / "m.csv", tmp_path / "p.csv"
    write_table(table, 20_000)
    predict(run, table, tmp_path / "here.csv", "--workers", "1")
    killed = threading.Thread(target=_kill_in_the_middle, args=(cluster, out))
    killed.start()
    predict(run, table, out, "--ray", cluster.address)
    killed.join(timeout=1)
    assert not killed.is_alive()
    assert len(cluster.list_all_nodes()) == 1
    assert out.read_bytes() == (tmp_path / "here.csv").read_bytes()


def _kill_in_the_middle(cluster: Any, out: Path) -> None:
    progress = out.with_name(f"{out.name}.partial.json")
    rows = 0
    while rows < 2_000:
        time.sleep(0.02)
        if progress.exists():
            rows = int(progress.read_text().partition('"rows": ')[2].partition(",")[0] or 0)
    assert rows < 15_000
    cluster.remove_node(cluster.second, allow_graceful=False)


@pytest.mark.slow
def test_folds_on_a_cluster_are_those_of_this_machine(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_targets(tmp_path / "m.csv", molecule_rows())
    command = ["train", "m.csv", "--target", "weight", "--folds", "3", *SMALL]
    assert main([*command, "--out", "here", "--side-by-side", "1"]) == 0
    assert main([*command, "--out", "there", "--ray", cluster.address]) == 0
    assert Path("here/out_of_fold.csv").read_bytes() == Path("there/out_of_fold.csv").read_bytes()
    assert Path("there/repeat0-fold0.log").is_file()


# Long enough to be in the middle of all runs when the machine is killed.
LONG = [*SMALL[2:], "--epochs", "12"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [["--folds", "4"], ["--ensemble", "4"]])
def test_a_killed_machine_loses_no_run(cluster, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    write_targets(tmp_path / "m.csv", molecule_rows())
    command = ["train", "m.csv", "--target", "weight", *kind, *LONG]
    assert main([*command, "--out", "here", "--side-by-side", "1"]) == 0
    with killed_when(cluster, lambda: running(Path("there"))):
        assert main([*command, "--out", "there", "--ray", cluster.address]) == 0
    assert runs(Path("there")) == runs(Path("here")) == dict.fromkeys(runs(Path("here")), 12)
    assert len(runs(Path("here"))) == 4
    assert Path("here/table.md").read_text() == Path("there/table.md").read_text()
    if kind[0] == "--folds":
        rows = [Path(name, "out_of_fold.csv").read_bytes() for name in ("here", "there")]
        assert rows[0] == rows[1]


@pytest.mark.slow
def test_a_killed_machine_loses_no_trial(cluster, tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    write_targets(tmp_path / "m.csv", molecule_rows())
    command = ["search", "m.csv", "--target", "weight", "--trials", "5", "--out", "found"]
    command += ["--model.layers", "1", "--model.hidden_dim", "16", "--epochs", "12"]
    with killed_when(cluster, lambda: running(Path("found"))):
        assert main([*command, "--ray", cluster.address]) == 0
    folders = sorted(path.parent.name for path in Path("found").glob("*/summary.json"))
    assert len(folders) == len(set(folders)) == 5
    states = {RunFolder(Path("found", name)).read_summary()["state"] for name in folders}
    assert states == {"finished"}
    rows = Path("found/table.md").read_text().splitlines()[2:]
    assert len(rows) == 5
    assert not any(word in row for row in rows for word in (" failed ", " running "))


def runs(out: Path) -> dict[str, int]:
    """The finished runs in a folder, and how many epochs each has recorded."""
    found = {}
    for folder in sorted(path.parent for path in out.glob("*/summary.json")):
        run = RunFolder(folder)
        assert run.read_summary()["state"] == "finished"
        found[folder.name] = len(run.read_metrics())
    return found


def running(out: Path) -> bool:
    """Whether four runs have been under way for a few epochs."""
    tables = [path.read_text() for path in out.glob("*/metrics.csv")]
    return len(tables) == 4 and all(text.count("\n") > 2 for text in tables)


@contextmanager
def killed_when(cluster: Any, ready: Callable[[], bool]) -> Iterator[None]:
    """Kills the second machine of a cluster as soon as it is busy."""

    def kill() -> None:
        while not ready():
            time.sleep(0.02)
        cluster.remove_node(cluster.second, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    yield
    killer.join(timeout=1)
    assert not killer.is_alive(), "nothing was killed"
    assert len(cluster.list_all_nodes()) == 1
