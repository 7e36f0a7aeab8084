from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from torch_geometric.data import Data

from eigenformer import Eigenformer
from eigenformer.cli import main
from eigenformer.config import ConfigError, load_preset
from eigenformer.data import Workspace
from eigenformer.model_folder import load_model, read_card, read_weights
from eigenformer.training import plan
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, finish, molecule_rows, start, write_table

_ONE = [*SMALL, "--epochs", "1"]


def _train(table, out, *more):
    return main(["train", str(table), "--out", str(out), *_ONE, *map(str, more)])


def test_a_run_folder_has_everything(run, table, capsys):
    names = {path.name for path in run.iterdir()}
    assert names == {
        *("config.yaml", "metrics.csv", "tensorboard", "model.safetensors", "model.json"),
        *("last.ckpt", "summary.json", ".lock", "model.reference.safetensors"),
    }
    assert any((run / "tensorboard").glob("events*"))
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["layers"] == 1
    assert config["training"]["warmup_epochs"] == pytest.approx(5 * 3 / 100)
    summary = RunFolder(run).read_summary()
    assert summary["state"] == "finished"
    assert summary["epochs"] == 3
    assert summary["parameters"] == load_model(run)[0].num_parameters()
    assert summary["seconds_per_epoch"] > 0
    assert summary["peak_memory_mb"] > 0
    assert {"torch", "eigenformer", "lightning"} <= set(summary["versions"])
    card = read_card(run)
    assert card.target is not None
    assert card.target.names == ("weight",)
    assert card.data is not None
    assert card.data.dataset == table.name  # no path of this machine
    assert len(RunFolder(run).read_metrics()) == 3


def test_the_lines_that_are_printed(table, tmp_path, capsys):
    assert _train(table, tmp_path / "run", "--target", "long", "--split-by", "stratified") == 0
    out = capsys.readouterr().out
    assert "task: graph binary (long)" in out
    assert "epoch 1/1  train loss" in out
    assert "test auroc" in out
    assert f"everything is in {tmp_path / 'run'}" in out
    assert "\r" not in out


@pytest.mark.parametrize("split", ["random", "stratified", "scaffold"])
def test_classes_in_words_and_ways_to_split(table, tmp_path, split):
    # The molecules have two scaffolds, a benzene ring and none, which stay together.
    fractions = ("--fractions", 0.84, 0.16, 0) if split == "scaffold" else ()
    arguments = ("--target", "kind", "--split-by", split, *fractions)
    assert _train(table, tmp_path / "run", *arguments) == 0
    outputs = read_card(tmp_path / "run").target
    assert outputs is not None
    assert (outputs.kind, outputs.names) == ("multiclass", ("acid", "other", "ring"))


def test_split_column_several_targets_and_missing_labels(tmp_path):
    rows = molecule_rows()
    for number, row in enumerate(rows):
        row["part"] = ["train", "train", "valid", "test"][number % 4]
        row["other"] = "" if number % 3 else number
    table = write_table(tmp_path / "t.csv", rows)
    arguments = ["--target", "weight", "other", "--split-column", "part"]
    assert _train(table, tmp_path / "run", *arguments) == 0
    summary = RunFolder(tmp_path / "run").read_summary()
    assert summary["graphs"] == {"train": 30, "val": 15, "test": 15}


def test_bad_rows_are_reported_with_their_lines(tmp_path, capsys):
    rows = molecule_rows()
    rows[3]["smiles"] = "C1CC"
    rows[7]["weight"] = ""
    table = write_table(tmp_path / "t.csv", rows)
    assert _train(table, tmp_path / "run", "--target", "weight") == 0
    error = capsys.readouterr().err
    assert "line 5: 'C1CC'" in error
    assert "line 9: no usable target" in error
    assert "58 of 60 rows" in error
    arguments = ("--target", "weight", "--max-bad-rows", "1%")
    assert _train(table, tmp_path / "strict", *arguments) == 2
    error = capsys.readouterr().err
    assert "2 of 60 rows cannot be used (3.3 %)" in error
    assert not (tmp_path / "strict" / "config.yaml").exists()


def test_fine_tuning_takes_the_trunk_and_a_new_head(run, table, tmp_path, capsys):
    source = ("--from", run)
    assert _train(table, tmp_path / "a", "--target", "kind", *source, "--lr", "1e-9") == 0
    assert "newly initialised: head" in capsys.readouterr().out
    before, after = load_model(run)[0], load_model(tmp_path / "a")[0]
    weights = [m.layers[0].attention.value.weight for m in (before, after)]
    assert weights[0].allclose(weights[1], atol=1e-6)
    assert after.head[-1].out_features == 3
    assert _train(table, tmp_path / "b", "--target", "weight", *source) == 0
    assert "new:" not in capsys.readouterr().out
    assert read_card(tmp_path / "b").target == read_card(run).target
    code = _train(table, tmp_path / "c", "--target", "weight", *source, "--model.layers", "2")
    assert code == 2
    assert "model.layers is 1, expected 2" in capsys.readouterr().err


def test_the_schedule_and_the_loss_follow_from_the_data(table, tmp_path, capsys):
    """The defaults for own data, as they are planned. Nothing is trained."""
    workspace = Workspace.resolve(cache_dir=tmp_path)
    preset = load_preset("molecules")
    numbers = {"data": {"dataset": str(table), "targets": ["weight"]}}
    config, _ = plan(numbers, workspace)
    assert (config.preset, config.patience) == ("molecules", preset.patience)
    assert config.training == preset.schedule(preset.fine_tuning, 48)
    again, _ = plan({**config.to_dict(), "patience": None}, workspace)
    assert (again.training, again.patience) == (config.training, None)
    labels = {"data": {"dataset": str(table), "targets": ["long"]}}
    assert plan(labels, workspace)[0].training.loss is None
    assert plan(plan(labels, workspace)[0].to_dict(), workspace)[0].training.loss is None
    for wanted, setting, message in (
        (labels, {"loss": "l2"}, "loss: 'l2' cannot be used for binary; there is no choice"),
        (numbers, {"class_balance": True}, "class_balance: regression has no classes"),
        (numbers, {"loss": "l3"}, "training.loss: .*'l3'"),
    ):
        with pytest.raises(ConfigError, match=message):
            plan({**wanted, "training": setting}, workspace)
    with pytest.raises(ConfigError, match="preset 'molecules' does not fit pattern: .* your own"):
        plan({"data": {"dataset": "pattern", "size": 20}, "preset": "molecules"}, workspace)


def test_every_metric_of_each_of_several_targets(table, tmp_path, capsys):
    assert (
        _train(table, tmp_path / "run", "--target", "weight", "long", "--task", "regression") == 0
    )
    summary = RunFolder(tmp_path / "run").read_summary()
    each = summary["test_by_target"]
    assert each.keys() == {"weight", "long"}
    for name in ("mae", "r2"):
        mean = (each["weight"][name] + each["long"][name]) / 2
        assert mean == pytest.approx(summary["test_metrics"][name], rel=1e-4)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert f"test weight: mae {each['weight']['mae']:.6f}, rmse" in out
    assert "test long: mae" in out


def test_limit_and_patience(table, tmp_path, capsys):
    arguments = ["--target", "weight", "--limit", "5", "--epochs", "40", "--patience", "2"]
    assert _train(table, tmp_path / "run", *arguments, "--lr", "1e-12") == 0
    summary = RunFolder(tmp_path / "run").read_summary()
    assert summary["graphs"] == {"train": 5, "val": 5, "test": 5}
    assert summary["epochs"] < 40


def test_the_backend_is_how_a_run_computes(table, tmp_path):
    out = tmp_path / "run"
    assert _train(table, out, "--target", "weight", "--backend", "literal") == 0
    assert RunFolder(out).read_config().backend == "literal"
    assert "literal" not in json.loads((out / "model.json").read_text())["architecture"].values()
    assert Eigenformer.load(out).backend == "auto"


def test_a_backend_that_is_not_there_is_found_before_training(table, tmp_path, monkeypatch, capsys):
    missing = None, "it was not compiled"
    monkeypatch.setattr("eigenformer.kernels.native.binding.load", lambda: missing)
    out = tmp_path / "run"
    assert _train(table, out, "--target", "weight", "--backend", "native") == 2
    assert "backend: 'native': it was not compiled" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_precision(table, tmp_path, precision):
    assert _train(table, tmp_path / "run", "--target", "weight", "--precision", precision) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zink"], "the nearest is 'zinc'"),
        (["zinc", "--preset", "mnist"], "preset 'mnist' does not fit zinc"),
        (["zinc", "--preset", "zink"], "the nearest is 'zinc"),
        (["zinc", "--model.layrs", "3"], "--model.layrs: unknown; the nearest is 'model.layers'"),
        (["zinc", "--modle.layers", "3"], "the nearest is 'model'"),
        (["zinc", "--layers", "3"], "use --model.layers"),
        (["zinc", "--epoch", "3"], "the nearest is 'epochs'"),
        (["zinc", "--model.layers", "many"], "model.layers: expected int, got 'many'"),
        (["zinc", "--target", "y"], "for your own data"),
        (["zinc", "--precision", "8"], "precision: '8': unknown"),
        (["zinc", "--backend", "torhc"], "backend: 'torhc': unknown; the nearest is 'torch'"),
        (["zinc", "--config", "nowhere.yaml"], "there is no such file"),
        ([], "no dataset given"),
        (["--resume", "nowhere"], "not a run folder"),
    ],
)
def test_mistakes_are_explained(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENFORMER_RAW_DIR", str(tmp_path))
    assert main(["train", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()


def test_a_run_that_exists_is_not_touched(run, table, capsys):
    before = (run / "summary.json").read_bytes()
    assert _train(table, run, "--target", "weight") == 2
    assert "already contains a run" in capsys.readouterr().err
    assert (run / "summary.json").read_bytes() == before


def test_a_table_without_a_target(table, tmp_path, capsys):
    assert _train(table, tmp_path / "run") == 2
    assert (
        "Give it with --target (columns: id, smiles, weight, long, kind)" in capsys.readouterr().err
    )


def test_a_folder_that_cannot_be_written(table, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert _train(table, tmp_path / "file" / "run", "--target", "weight") == 2
    assert "cannot be written to" in capsys.readouterr().err


def test_debug_shows_the_traceback(tmp_path):
    with pytest.raises(ValueError, match="nearest"):
        main(["train", "zink", "--out", str(tmp_path / "run"), "--debug"])


def test_a_loss_that_is_no_number(table, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ("--target", "weight", "--lr", "1e30", "--training.gradient_clip", "1e30")
    assert _train(table, out, *arguments, "--epochs", 4) == 2
    error = capsys.readouterr().err
    assert "the loss is" in error
    assert "lower --lr" in error
    assert RunFolder(out).read_summary()["state"] == "failed"
    load_model(out)


def test_settings_of_a_file_come_before_options(run, tmp_path):
    out = tmp_path / "run"
    arguments = ["--config", str(run / "config.yaml"), "--out", str(out), "--epochs", "1"]
    assert main(["train", *arguments, "--model.phi_width=5"]) == 0
    config = RunFolder(out).read_config()
    assert config.model.phi_width == 5
    assert config.model.layers == 1
    assert config.training.warmup_epochs == pytest.approx(5 / 100)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on file sizes")
def test_a_full_disk_leaves_the_last_good_files(table, tmp_path):
    """A limit on the size of files stands in for the disk: the third checkpoint does not fit."""
    arguments = ["train", table, "--target", "weight", "--out", "run", *SMALL]
    code, output = finish(*arguments, cwd=tmp_path)
    assert code == 0, output
    size = (tmp_path / "run" / "last.ckpt").stat().st_size
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "sitecustomize.py").write_text(
        f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size - 100}, {size - 100}))"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    code, output = finish(*arguments, cwd=tmp_path, PYTHONPATH=path)
    assert code == 2, output
    assert "last.ckpt: File too large" in output
    assert "Traceback" not in output
    load_model(tmp_path / "run")
    assert not [name for name in os.listdir(tmp_path / "run") if "~" in name]


@pytest.mark.parametrize("size", [1e20, 1e38])
def test_features_beyond_single_precision_never_become_weights(tmp_path, capsys, size):
    graphs = []
    for number in range(30):
        nodes = torch.arange(4 + number % 3)
        edges = torch.stack([nodes, nodes.roll(1)])
        x, edge_attr = torch.rand(len(nodes), 2), size * torch.rand(len(nodes), 1)
        if size < 1e30:
            x, edge_attr = size * x, edge_attr / size
        graphs.append(Data(x=x, edge_index=edges, edge_attr=edge_attr, y=torch.rand(1)))
    (tmp_path / "graphs").mkdir()
    torch.save(graphs, tmp_path / "graphs" / "all.pt")
    assert _train(tmp_path / "graphs", tmp_path / "run", "--epochs", 2) == 2
    error = capsys.readouterr().err
    assert "check the data for extreme values" in error
    assert RunFolder(tmp_path / "run").read_summary()["state"] == "failed"
    weights = read_weights(tmp_path / "run")
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_one_class_only_is_told_and_the_loss_chooses_the_epoch(tmp_path, capsys):
    rows = molecule_rows()
    for number, row in enumerate(rows):
        row["part"] = ["train", "train", "valid", "test"][number % 4]
        row["long"] = number % 8 == 0 if row["part"] == "train" else 1
    table = write_table(tmp_path / "t.csv", rows)
    arguments = ("--target", "long", "--split-column", "part", "--task", "binary", "--epochs", 2)
    assert _train(table, tmp_path / "run", *arguments) == 0
    told = capsys.readouterr().err
    assert "in the split 'val', all values are of one class" in told
    assert "split 'train'" not in told
    assert "val auroc is undefined in every epoch" in told
    summary = RunFolder(tmp_path / "run").read_summary()
    losses = [row["val_loss"] for row in RunFolder(tmp_path / "run").read_metrics()]
    assert summary["best_epoch"] == losses.index(min(losses)) + 1
    assert "NaN" not in (tmp_path / "run" / "summary.json").read_text()


def test_positions_that_no_model_sees_are_told(tmp_path, capsys):
    graphs = [
        Data(x=torch.rand(3, 1), pos=torch.rand(3, 2), edge_index=torch.tensor([[0], [1]]), y=y)
        for y in torch.rand(20)
    ]
    (tmp_path / "graphs").mkdir()
    torch.save(graphs, tmp_path / "graphs" / "all.pt")
    assert _train(tmp_path / "graphs", tmp_path / "run") == 0
    assert "node features are read from 'x' only, not from 'pos'" in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs names that are no text")
@pytest.mark.parametrize("what", ["folder", "table", "cwd"])
def test_paths_that_are_not_utf8_are_refused_at_the_start(
    table, tmp_path, capsys, monkeypatch, what
):
    strange = os.fsdecode(bytes(tmp_path) + b"/\xff")
    out, data = str(tmp_path / "run"), str(table)
    if what == "folder":
        out = strange
    elif what == "table":
        shutil.copy(table, f"{strange}.csv")
        data = f"{strange}.csv"
    else:
        os.mkdir(strange)
        monkeypatch.chdir(strange)
        out = "run"
    try:
        code = _train(data, out, "--target", "weight")
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    assert code == 2
    assert "not valid UTF-8" in captured.err
    assert "epoch" not in captured.out
    assert not os.path.exists(out)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_stop_outside_of_training_is_one_sentence(table, tmp_path, number):
    """A new process, while it imports PyTorch."""
    process = start("train", table, "--target", "weight", "--out", "run", *_ONE, cwd=tmp_path)
    while "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.02)
    process.send_signal(signal.Signals[number])
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output.splitlines()[-1]) == (130, "eigenformer train: stopped")
    assert "Traceback" not in output
