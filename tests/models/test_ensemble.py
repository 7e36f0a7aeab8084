"""Several models that predict together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch

from eigenformer import from_smiles
from eigenformer.config import BenchmarkData
from eigenformer.model_folder import (
    ENSEMBLE,
    EnsembleCard,
    ModelCard,
    ModelFolderError,
    load_model,
    save_model,
    write_ensemble,
)
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.models.ensemble import Ensemble
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget, Target

TARGETS = (
    NumberTarget(mean=(2.0,), scale=(3.0,)),
    LabelTarget(names=("toxic",)),
    ClassTarget(num_outputs=3),
)


def zinc_batch() -> Batch:
    pytest.importorskip("rdkit")
    return Batch.from_data_list([from_smiles(text, "zinc") for text in ("CCO", "c1ccccc1", "C")])


def network(seed: int, width: int = 1) -> Eigenformer:
    torch.manual_seed(seed)
    sizes = {"layers": 1, "hidden_dim": 16, "phi_width": 4, "out_channels": width}
    return Eigenformer.from_preset("zinc", **sizes).eval()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_units_and_back(target: Target) -> None:
    outputs = torch.randn(5, target.width, dtype=torch.float64)
    units = target.in_units(outputs)
    torch.testing.assert_close(target.in_units(target.from_units(units)), units)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
@torch.no_grad()
def test_the_mean_is_taken_in_units(target: Target) -> None:
    members = [network(seed, target.width) for seed in range(3)]
    together = Ensemble(members, [target] * 3).eval()
    batch = zinc_batch()
    each = torch.stack([target.in_units(member(batch)) for member in members])
    torch.testing.assert_close(together.each(batch), each)
    torch.testing.assert_close(target.in_units(together(batch)), each.mean(0))


@torch.no_grad()
def test_members_may_have_been_standardised_apart() -> None:
    targets = [NumberTarget(mean=(2.0,), scale=(3.0,)), NumberTarget(mean=(0.0,), scale=(1.0,))]
    members = [network(0), network(1)]
    batch = zinc_batch()
    wanted = (members[0](batch) * 3 + 2 + members[1](batch)) / 2
    found = targets[0].in_units(Ensemble(members, targets)(batch))
    torch.testing.assert_close(found, wanted)


def saved(folder: Path, **changes: object) -> Path:
    for seed, name in enumerate(("a", "b")):
        model = network(seed)
        card = ModelCard(model.config, target=TARGETS[0], data=BenchmarkData("zinc"))
        save_model(folder / name, model, card.replace(**(changes if name == "b" else {})))
    write_ensemble(folder, EnsembleCard(("a", "b")))
    return folder


@torch.no_grad()
def test_a_folder_of_models_is_a_model(tmp_path: Path) -> None:
    model, card = load_model(saved(tmp_path))
    assert isinstance(model, Ensemble)
    assert card.target == TARGETS[0]
    batch = zinc_batch()
    both = [load_model(tmp_path / name)[0](batch) for name in ("a", "b")]
    torch.testing.assert_close(model(batch), torch.stack(both).mean(0))


def test_members_must_fit_together(tmp_path: Path) -> None:
    saved(tmp_path, target=NumberTarget(names=("other",)))
    with pytest.raises(ModelFolderError, match="b: predicts something else than other members"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"members": ["../a"]}, "'../a' is not the name of a folder inside this one"),
        ({"members": [".."]}, "is not the name of a folder"),
        ({"members": []}, "members: none"),
        ({"members": ["a"] * 10**5}, "members: one of them is named twice"),
        ({"members": ["a"], "format": 9}, "format: 9"),
        ({"members": ["nowhere"]}, "nowhere: no model here"),
        ([1], "not an ensemble"),
    ],
)
def test_a_hostile_ensemble(tmp_path: Path, content: object, message: str) -> None:
    saved(tmp_path)
    (tmp_path / ENSEMBLE).write_text(json.dumps(content))
    with pytest.raises(ModelFolderError, match=message):
        load_model(tmp_path)


def test_an_ensemble_in_itself(tmp_path: Path) -> None:
    saved(tmp_path)
    write_ensemble(tmp_path / "a", EnsembleCard(("a",)))
    with pytest.raises(ModelFolderError, match="a member of an ensemble cannot be one"):
        load_model(tmp_path)
