"""Networks other than the Eigenformer, on the whole way: train, resume, evaluate, predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer import Eigenformer
from eigenformer.analysis.run_report import report_run
from eigenformer.cli import main
from eigenformer.config import ModelConfig, NetworkConfig
from eigenformer.encoders import build_encoder
from eigenformer.kernels.native import load
from eigenformer.models import MessagePassing, Model, build_model
from eigenformer.pages import report_page
from eigenformer.parts import make_head
from eigenformer.ragged import graph_of_nodes
from eigenformer.training.module import TrainingModule
from eigenformer.training.planning import run_name
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import read_rows

SMALL = [
    *("--epochs", "3", "--batch-size", "16", "--threads", "1"),
    *("--model.layers", "2", "--model.hidden_dim", "16"),
]


@dataclass(frozen=True)
class DeepSetsConfig(NetworkConfig):
    """Nodes without their edges."""

    network: ClassVar[str] = f"{__name__}:DeepSets"

    kind: Literal["deep_sets"] = "deep_sets"


class DeepSets(Model):
    """The same network for every node, and a pool."""

    def __init__(self, config: DeepSetsConfig) -> None:
        super().__init__(config)
        d = config.hidden_dim
        self.node_encoder = build_encoder(config.node_encoder, d)
        self.edge_encoder = None
        self.layers = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.head = make_head(d, config.out_channels)

    def forward(self, batch: Data) -> Tensor:
        node_graph, num_graphs = graph_of_nodes(batch)
        x, _ = self.features(batch, node_graph)
        pooled = self.pool(self.layers(self.node_encoder(x)), node_graph, num_graphs)
        return self.head(pooled)


@pytest.fixture
def more_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one more name in the union of ``config/networks.py`` does."""
    for module in ("config.run", "model_folder", "training.planning"):
        monkeypatch.setattr(f"eigenformer.{module}.ModelConfig", ModelConfig | DeepSetsConfig)


@pytest.fixture
def no_spectra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a spectrum is computed."""

    def fail(*arguments: object, **named: object) -> None:
        pytest.fail("a spectrum was computed")

    monkeypatch.setattr("eigenformer.data.preparation._spectra", fail)


@pytest.mark.usefixtures("more_networks", "no_spectra")
@pytest.mark.parametrize("kind", ["gine", "grit", "deep_sets"])
def test_trains_resumes_evaluates_and_predicts_without_spectra(
    kind: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", str(table), "--target", "weight", "--model.kind", kind, *SMALL]
    whole, half = tmp_path / "whole", tmp_path / "half"
    assert main([*train, "--out", str(whole)]) == 0
    assert main([*train, "--out", str(half), "--epochs", "3"]) == 0
    config = RunFolder(whole).read_config()
    assert config.model.kind == kind
    assert config.model.needs == (False, None)
    # The same settings and seed give the same bits; a finished run has nothing to resume.
    weights = [Model.load(folder).state_dict() for folder in (whole, half)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    assert main(["train", "--resume", str(half)]) == 0
    assert "already finished" in capsys.readouterr().out
    assert main(["evaluate", str(whole)]) == 0
    shown = capsys.readouterr().out
    assert f"test mae {RunFolder(whole).read_summary()['test']:.6f}" in shown
    predictions = tmp_path / "predictions.csv"
    assert main(["predict", str(whole), str(table), "--out", str(predictions)]) == 0
    assert len(read_rows(predictions)) == 60


def test_a_stopped_run_goes_on_to_the_same_bits(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with random signs of eigenvectors, which are a function of seed, epoch and step."""
    kind = ["--model.kind", "gps", "--model.encoding.kind", "lappe", "--model.encoding.width", "8"]
    train = ["train", str(table), "--target", "weight", *kind, *SMALL]
    assert main([*train, "--out", str(tmp_path / "whole")]) == 0

    begin = TrainingModule.on_train_epoch_start

    def stop(self: TrainingModule) -> None:
        if self.current_epoch == 1:
            raise KeyboardInterrupt
        begin(self)

    cut = tmp_path / "cut"
    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "on_train_epoch_start", stop)
        assert main([*train, "--out", str(cut)]) != 0
    assert RunFolder(cut).read_summary()["state"] == "interrupted"
    assert len(RunFolder(cut).read_metrics()) == 1
    assert main(["train", "--resume", str(cut)]) == 0
    weights = [Model.load(tmp_path / name).state_dict() for name in ("whole", "cut")]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_a_model_is_loaded_as_what_it_is(tmp_path: Path) -> None:
    from tests.models.test_networks import config

    build_model(config("gine")).save(tmp_path)
    assert isinstance(Model.load(tmp_path), MessagePassing)
    with pytest.raises(TypeError, match="contains MessagePassing, not Eigenformer"):
        Eigenformer.load(tmp_path)


def test_other_networks_have_no_attention_to_look_at(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    kind = ["--model.kind", "gatedgcn"]
    assert main(["train", str(table), "--target", "weight", *kind, *SMALL, "--out", out]) == 0
    for command in (["explain", out, "CCO"], ["figures", "architecture", out]):
        assert main(command) != 0
        assert "Eigenformer" in capsys.readouterr().err


def test_every_list_names_the_network(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = ["--model.kind", "gin"]
    run = tmp_path / "run"
    assert main(["train", str(table), "--target", "weight", *kind, *SMALL, "--out", str(run)]) == 0
    assert "model: gin, preset molecules, " in capsys.readouterr().out
    assert RunFolder(run).read_summary()["network"] == "gin"
    for summary in (RunFolder(run).read_summary(), {"state": "of an older version"}):
        RunFolder(run).write_summary(summary)
        assert main(["runs", str(tmp_path)]) == 0
        header, row = capsys.readouterr().out.splitlines()
        column = header.index("network")
        assert row[column:].startswith("gin  ")


def test_other_networks_are_told_beside_the_papers_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--data.size", "12", "--epochs", "1", "--batch-size", "4"]
    size += ["--model.layers", "1", "--model.hidden_dim", "8"]
    command = ["reproduce", "pattern", "--seeds", "0", *size, "--threads", "1"]
    kind = ["--model.kind", "gcn"]
    assert main([*command, *kind, "--out", str(tmp_path)]) == 0
    assert "; not the paper's network: gcn" in capsys.readouterr().out
    assert main([*command, "--out", str(tmp_path / "smaller")]) == 0
    assert "; other settings than the preset's" in capsys.readouterr().out
    run = tmp_path / "pattern-seed0"
    page = report_page(report_run(run))
    assert "The network of this run is gcn; the paper&#39;s is" in page
    assert "this run: gcn" in page
    assert "pattern · gcn · preset pattern" in page


def test_only_training_offers_the_option_task(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", str(table), "--target", "weight", "--model.kind", "gine", *SMALL]
    assert main([*train, "--out", str(tmp_path)]) == 0
    assert "task: graph regression (weight), inferred" in capsys.readouterr().out
    for command in (["evaluate"], ["diagnose", "--limit", "4"], ["report"]):
        out = ["--out", str(tmp_path / "r.html")] if command == ["report"] else []
        assert main([command[0], str(tmp_path), *command[1:], *out]) == 0
        printed = capsys.readouterr()
        assert "--task" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backend", "native", "--precision", "64"], "backend: torch instead of native: it comp"),
        (["--backend", "torch", "--precision", "64"], None),
        (["--precision", "64"], None),
    ],
)
def test_another_kernel_than_the_chosen_one_is_told(
    options: list[str],
    message: str | None,
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "native" in options and load()[0] is None:
        pytest.skip(load()[1])
    train = ["train", str(table), "--target", "weight", *SMALL, "--epochs", "1", "--limit", "20"]
    assert main([*train, *options, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert (message in printed) if message else ("instead of" not in printed)


@pytest.mark.parametrize("lacks", [True, False])
def test_bf16_on_a_processor_without_it_is_told(
    lacks: bool,
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eigenformer.training.trainer.lacks_bf16", lambda: lacks)
    train = ["train", str(table), "--target", "weight", *SMALL, "--epochs", "1", "--limit", "20"]
    options = ["--precision", "bf16", "--device", "cpu", "--out", str(tmp_path / "run")]
    assert main([*train, *options]) == 0
    message = "precision: bf16: this processor has no instructions for it"
    assert (message in capsys.readouterr().out) == lacks


def test_the_default_folder_names_another_network() -> None:
    zinc = {"data": {"dataset": "zinc"}}
    assert run_name({**zinc, "model": {"kind": "gin"}}) == "zinc-zinc-gin-seed0"
    assert run_name({**zinc, "model": {"kind": "eigenformer"}}) == "zinc-zinc-seed0"
    assert run_name({**zinc, "preset": "zinc-gps", "seed": 1}) == "zinc-zinc-gps-seed1"
