"""One way to open a trained model, and what it can do."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer.cli import main
from eigenformer.config import (
    BenchmarkData,
    EmbeddingSpec,
    InputFormat,
    MessagePassingConfig,
    OwnData,
)
from eigenformer.data import DataError, GraphArchive, Workspace, featurizer
from eigenformer.data.batching import GraphDataset
from eigenformer.data.molecules import molecule_archive
from eigenformer.data.spectra import memory_spectra
from eigenformer.model_folder import ModelCard, ModelFolderError, read_card, save_model
from eigenformer.models import build_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import NumberTarget
from eigenformer.trained_model import TrainedModel
from eigenformer.training.predicting import predict_batches

SMALL = [
    *("--epochs", "2", "--batch-size", "16", "--threads", "1"),
    *("--model.layers", "1", "--model.hidden_dim", "16"),
]


@pytest.fixture
def zinc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own graphs that is called as a benchmark is."""
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zinc").mkdir()
    graphs = []
    for size in [5, 6, 7, 8] * 10:
        there = torch.tensor([[i, (i + 1) % size] for i in range(size)]).T
        edges = torch.cat([there, there.flip(0)], 1)
        x = torch.arange(size)[:, None] % 3
        graphs.append(Data(x=x, edge_index=edges, y=torch.tensor([size / 2])))
    torch.save(graphs, tmp_path / "zinc" / "rings.pt")
    return tmp_path / "zinc"


def test_other_data_is_used_in_full_whatever_it_is_called(
    zinc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the file's name nor a limit of the training says what is evaluated."""
    limited = ["--limit", "4", "--model.phi_width", "4"]
    assert main(["train", "./zinc", "--out", "run", *SMALL, *limited]) == 0
    (tmp_path / "other").mkdir()
    shutil.copytree(zinc, tmp_path / "other" / "zinc")
    for data, split, count in (("other/zinc", "all", 40), ("./zinc", "test", 4)):
        capsys.readouterr()
        assert main(["evaluate", "run", "--data", data]) == 0
        assert re.search(rf"^{split} mae .* \({count} graphs\)$", capsys.readouterr().out, re.M)


def test_a_misspelt_split_is_found_before_the_data_is_read(zinc: Path) -> None:
    assert main(["train", "./zinc", "--out", "run", *SMALL, "--model.phi_width", "4"]) == 0
    shutil.rmtree(zinc)
    with pytest.raises(DataError, match="split 'tset': unknown; the nearest is 'test'"):
        TrainedModel.open("run").graphs(split="tset")


def test_an_own_folder_called_zinc_is_own_data_everywhere(
    zinc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "./zinc", "--out", "run", *SMALL, "--model.phi_width", "4"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "run"]) == 0
    known = capsys.readouterr().out.splitlines()[-3:]
    trained = TrainedModel.open("run")
    assert trained.data == OwnData(dataset=str(zinc))
    # Of the model alone: only the name is known, and where the data is must be said.
    (tmp_path / "alone").mkdir()
    for name in ("model.json", "model.safetensors"):
        shutil.copy(tmp_path / "run" / name, tmp_path / "alone")
    assert read_card("alone").data == OwnData(dataset="zinc")
    assert read_card("alone").input_format == InputFormat()
    assert main(["evaluate", "alone", "--data", "./zinc", "--split", "test"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == known
    assert main(["predict", "alone", "./zinc", "--out", "p.csv"]) == 0
    with open("p.csv", newline="") as stream:
        assert len(list(csv.DictReader(stream))) == 40
    assert main(["explain", "run", "test", "--out", "e.html"]) == 0
    assert main(["train", "--resume", "run"]) == 0
    assert main(["report", "run", "--out", "r.html"]) == 0


def test_a_network_without_spectra(
    zinc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", "./zinc", "--out", "run", *SMALL, "--model.kind", "gine"]
    assert main(command) == 0
    assert not (tmp_path / "cache" / "spectra").exists()
    assert main(["evaluate", "run"]) == 0
    assert "test mae" in capsys.readouterr().out
    assert main(["predict", "run", "./zinc", "--out", "p.csv"]) == 0
    assert main(["train", "--resume", "run"]) == 0
    assert main(["report", "run", "--out", "r.html"]) == 0
    assert main(["explain", "run", "test"]) == 2
    assert "has no spectrum-aware attention" in capsys.readouterr().err
    assert not (tmp_path / "cache" / "spectra").exists()


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no model here"):
        TrainedModel.open(tmp_path)
    model = Eigenformer.from_preset("zinc", layers=1, hidden_dim=8, phi_width=2)
    save_model(tmp_path, model)
    with pytest.raises(ModelFolderError, match="does not say what it predicts"):
        TrainedModel.open(tmp_path)
    card = ModelCard(model.config, NumberTarget(), data=BenchmarkData("zinc"))
    save_model(tmp_path, model, card)
    with pytest.raises(ValueError, match="device: 'cudo': unknown; the nearest is 'cuda'"):
        TrainedModel.open(tmp_path, device="cudo")
    trained = TrainedModel.open(tmp_path, backend="torch")
    assert (trained.model.backend, trained.device.type) == ("torch", "cpu")
    assert not trained.model.training
    with pytest.raises(DataError, match="not trained on molecules from SMILES"):
        trained.molecule("CC")
    workspace = Workspace(None, tmp_path / "cache")
    with pytest.raises(
        ModelFolderError, match="targets: only for your own data; 'zinc' is a bench"
    ):
        trained.graphs(workspace, dataset="zinc", columns={"targets": ("y",)})


def test_predictions_do_not_depend_on_the_form(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    from eigenformer import from_smiles

    model = Eigenformer.from_preset("zinc", layers=1, hidden_dim=8, phi_width=2).eval()
    target = NumberTarget(mean=(2.0,), scale=(3.0,))
    expected = InputFormat(featurizer="zinc", num_frequencies=3)
    trained = TrainedModel("m", model, target, expected, BenchmarkData("zinc"))
    smiles = ["CCO", "CC(=O)O"]
    graphs = [from_smiles(text, featurizer="zinc", num_frequencies=3) for text in smiles]
    with torch.no_grad():
        single = torch.cat([model(graph) for graph in graphs]) * 3 + 2
    assert torch.allclose(trained.predict(graphs), single, atol=1e-5)
    assert torch.allclose(trained.predict(trained.molecules(smiles)), single, atol=1e-5)
    assert trained.predict([]).shape == (0, 1)


def test_predicts_for_smiles_and_says_what_it_cannot_take() -> None:
    pytest.importorskip("rdkit")
    model = Eigenformer.from_preset("zinc", layers=1, hidden_dim=8, phi_width=2).eval()
    known = InputFormat(featurizer="zinc")
    trained = TrainedModel("m", model, NumberTarget(), known, BenchmarkData("zinc"))
    smiles = ["CCO", "CC(=O)O"]
    assert torch.equal(trained.predict(smiles), trained.predict(trained.molecules(smiles)))
    for wrong, message in (
        ("CCO", "expected a list of graphs or SMILES, got one str"),
        (None, "expected a list of graphs or SMILES, got one NoneType"),
        (Data(), "expected a list of graphs or SMILES, got one Data"),
        (["CCO", None], "graph 1: expected a SMILES, like the first, got NoneType"),
        ([Data(), "CCO"], "graph 1: expected a PyG graph, got str"),
        ([None], "graph 0: expected a PyG graph or a SMILES, got NoneType"),
        (["C", "C1"], "'C1': "),
    ):
        with pytest.raises(DataError, match=message):
            trained.predict(wrong)  # type: ignore[arg-type]
    no_molecules = replace(trained, input_format=InputFormat())
    with pytest.raises(DataError, match="not trained on molecules from SMILES"):
        no_molecules.predict(["CCO"])


def test_an_error_calls_a_model_by_its_name(tmp_path: Path) -> None:
    model = Eigenformer.from_preset("zinc", layers=1, hidden_dim=8, phi_width=2)
    card = ModelCard(model.config, NumberTarget(), data=BenchmarkData("pattern", size=6))
    save_model(tmp_path / "mine", model, card)
    trained = TrainedModel.open(tmp_path / "mine")
    with pytest.raises(ValueError, match="^the model 'mine' does not fit pattern: pooling"):
        trained.graphs(Workspace(None, tmp_path / "cache"))


def test_a_backend_needs_attention() -> None:
    config = MessagePassingConfig(EmbeddingSpec(3), hidden_dim=8)
    assert build_model(config).backend == "auto"
    with pytest.raises(ValueError, match=r"spectrum-aware attention, which gine"):
        build_model(config, "native")


def test_the_same_molecule_gets_the_same_prediction():
    """A thousand chiral molecules, each written in two orders of its atoms."""
    chem = pytest.importorskip("rdkit.Chem")
    acids = [f"N[C@@H]({side})C(=O)" for side in ("C", "CO", "CS", "C(C)C", "Cc1ccccc1", "CCSC")]
    acids += [text.replace("@@", "@") for text in acids[:4]]
    ends = ("O", "OC", "N", "N1C[C@H](F)C[C@H]1C", "O[C@H]1CCC[C@@H]1Cl", "N/C=C/C", "[O-]")
    ends += ("NC[C@](F)(Cl)C", "OC[P@](=O)(C)N", "N[S@](=O)C")
    texts = [f"{a}{b}{c}" for a in acids for b in acids for c in ends]
    assert len(texts) == 1000
    random, rewritten = np.random.default_rng(0), []
    for text in texts:
        molecule = chem.MolFromSmiles(text)
        order = random.permutation(molecule.GetNumAtoms()).tolist()
        shuffled = chem.RenumberAtoms(molecule, order)
        rewritten.append(chem.MolToSmiles(shuffled, canonical=False))
    assert sum(a != b for a, b in zip(texts, rewritten, strict=True)) > 990
    torch.manual_seed(0)
    model = Eigenformer.from_preset("peptides-func-quick", layers=2, hidden_dim=16).eval()
    make = featurizer("molecule")
    found = []
    for written in (texts, rewritten):
        archive = molecule_archive([make(text) for text in written], "molecule")
        graphs = GraphDataset(archive, memory_spectra(archive, None))
        found.append(torch.cat([p.output for p in predict_batches(model, graphs, 100)]))
    assert (found[0] - found[1]).abs().max() < 1e-4 * found[0].std()


def test_graphs_that_are_not_molecules_have_no_smiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine integers per node, as molecules have."""
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    nodes = torch.arange(5)
    edges = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    graphs = [
        Data(x=torch.full((5, 9), i % 2), edge_index=edges, y=torch.tensor([[float(i)]]))
        for i in range(20)
    ]
    archive = GraphArchive.from_data_list(graphs, target=NumberTarget(names=("y",)))
    archive.save("rings")
    assert main(["train", "rings", "--out", "run", *SMALL]) == 0
    assert read_card("run").input_format.featurizer is None
    Path("new.csv").write_text("smiles\nCCO\n")
    assert main(["predict", "run", "new.csv", "--out", "p.csv"]) == 2
    assert "the model was not trained on molecules from SMILES" in capsys.readouterr().err


def test_raised_limits_hold_for_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text("smiles,y\n" + "".join(f"{'C' * n}O,{n}\n" for n in range(1, 31)))
    deep = ["--model.head_layers", "65", "--target", "y", *SMALL]
    assert main(["train", "m.csv", *deep, "--out", "run"]) == 2
    assert "--limits head_layers=NUMBER" in capsys.readouterr().err
    raised = ["--limits", "head_layers=100"]
    assert main(["train", "m.csv", *deep, *raised, "--out", "run"]) == 0
    assert main(["train", "--resume", "run", *raised]) == 0
    assert main(["train", "m.csv", *deep, *raised, "--from", "run", "--out", "next"]) == 0


def test_a_folder_called_like_a_benchmark_is_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("pattern").mkdir()
    assert main(["train", "pattern", "--data.size", "20", "--out", "run", *SMALL]) == 0
    assert "'pattern' is the benchmark; to use the folder or file" in capsys.readouterr().err
