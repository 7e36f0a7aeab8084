from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigenformer import TrainedModel
from eigenformer.cli import main
from eigenformer.model_folder import ModelFolderError
from eigenformer.training.novelty import REFERENCE, Reference, embed
from tests.training.samples import SMALL, molecule_rows, read_rows, write_table


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("novelty")
    table = write_table(folder / "table.csv", molecule_rows())
    assert (
        main(["train", str(table), "--target", "weight", "--out", str(folder / "run"), *SMALL]) == 0
    )
    return folder / "run"


def test_a_molecule_unlike_all_others_is_told(run, tmp_path):
    strange = "F[Si](F)(F)[Se]c1c(I)c(Br)c2c(c1[N+](=O)[O-])P(=O)(O)OB2"
    rows = [{"smiles": text} for text in ("CCCCCO", "xyz", strange)]
    table, out = write_table(tmp_path / "new.csv", rows), tmp_path / "out.csv"
    assert main(["predict", str(run), str(table), "--novelty", "--out", str(out)]) == 0
    known, invalid, new = read_rows(out)
    assert float(known["novelty"]) < 0.9
    assert (invalid["novelty"], new["reason"]) == ("", "")
    assert float(new["novelty"]) == 1
    assert main(["predict", str(run), str(table), "--out", str(out)]) == 0
    assert "novelty" not in read_rows(out)[0]


def test_of_two_columns_with_the_same_name_the_first_counts(run, tmp_path):
    table, out = tmp_path / "twice.csv", tmp_path / "out.csv"
    table.write_text("smiles,smiles\nCCO,xyz\n")
    assert main(["predict", str(run), str(table), "--out", str(out)]) == 0
    assert out.read_text().splitlines()[1].endswith(",")  # no reason


def test_novelty_is_the_rank_of_the_distance_to_the_nearest():
    reference = Reference(
        torch.tensor([[0.0, 0], [4, 0]]), torch.tensor([2.0, torch.inf]), torch.tensor([0.25, 1, 3])
    )
    found = reference.novelty(torch.tensor([[0.2, 9.0], [2.1, 0], [5.0, 0], [40, 0]]))
    assert found.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1])


def test_training_graphs_are_what_was_seen(run):
    trained = TrainedModel.open(run)
    graphs = trained.graphs(split="train")
    assert trained.reference.known
    torch.testing.assert_close(trained.reference.embeddings, embed(trained.model, graphs))
    assert trained.novelty(graphs.archive.subset(graphs.indices)).max() == 0


def test_a_model_without_a_reference(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("model.json", "model.safetensors"):
        (copy / name).write_bytes((run / name).read_bytes())
    table = write_table(tmp_path / "new.csv", [{"smiles": "CCO"}])
    arguments = ["predict", str(copy), str(table), "--out", str(tmp_path / "out.csv")]
    assert main(arguments) == 0
    assert main([*arguments, "--novelty"]) == 2
    assert "did not record what it has seen" in capsys.readouterr().err


def forged(run, copy, **changes):
    """The model with another reference that has the right checksum."""
    shutil.copytree(run, copy)
    trained = TrainedModel.open(run)
    values = {name: changes.get(name, value) for name, value in vars(trained.reference).items()}
    Reference(**values).save(copy, trained.model)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scale", lambda value: value[1:]),
        ("scale", lambda value: -value),
        ("scale", lambda value: value * torch.nan),
        ("embeddings", lambda value: value * torch.inf),
        ("embeddings", lambda value: value.repeat(100, 1)),
        ("distances", lambda value: value.flip(0) + torch.arange(len(value), 0.0, -1)),
        ("distances", lambda value: value.double()),
    ],
)
def test_a_forged_reference(run, tmp_path, name, change):
    value = getattr(TrainedModel.open(run).reference, name)
    forged(run, tmp_path / "copy", **{name: change(value)})
    with pytest.raises(ModelFolderError, match="not the reference of a model"):
        TrainedModel.open(tmp_path / "copy")


def test_a_reference_of_other_weights_is_not_used(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    reference, model = TrainedModel.open(run).reference, TrainedModel.open(run).model
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    reference.save(copy, model)
    assert TrainedModel.open(run).reference.known
    assert not TrainedModel.open(copy).reference.known
    tensors = load_file(run / REFERENCE)
    save_file({**tensors, "distances": 0 * tensors["distances"]}, copy / REFERENCE)
    table = write_table(tmp_path / "new.csv", [{"smiles": "CCO"}])
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(copy), str(table), "--out", out, "--novelty"]) == 2
    assert "or the record was altered" in capsys.readouterr().err


def test_a_reference_of_another_width(run, tmp_path, capsys):
    reference = TrainedModel.open(run).reference
    forged(
        run, tmp_path / "copy", embeddings=reference.embeddings[:, 1:], scale=reference.scale[1:]
    )
    table = write_table(tmp_path / "new.csv", [{"smiles": "CCO"}])
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(tmp_path / "copy"), str(table), "--out", out, "--novelty"]) == 2
    said = capsys.readouterr().err
    assert "channels" in said
    assert "--debug" not in said
