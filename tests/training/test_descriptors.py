"""Descriptors beside the graph, from a table to predictions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenformer import EigenformerRegressor, TrainedModel
from eigenformer.cli import main
from eigenformer.model_folder import load_model, read_card
from tests.training.samples import SMALL, molecule_rows, read_rows, write_table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = [
        {**row, "extra": "" if place % 7 else place} for place, row in enumerate(molecule_rows())
    ]
    return write_table(tmp_path_factory.mktemp("table") / "table.csv", rows)


@pytest.mark.parametrize("kind", ["eigenformer", "gine"])
def test_trained_evaluated_and_predicted(table, tmp_path, capsys, kind):
    run = tmp_path / "run"
    arguments = ["--target", "weight", "--descriptors", "morgan", "extra", "--out", str(run)]
    small = [*SMALL[:-2], *(("--model.phi_width", "4") if kind == "eigenformer" else ())]
    assert main(["train", str(table), *arguments, *small, "--model.kind", kind]) == 0
    card = read_card(run)
    assert (card.architecture.num_descriptors, card.input_format.descriptors) == (
        1025,
        ("morgan", "extra"),
    )
    model, _ = load_model(run)
    assert model.descriptor_encoder is not None
    trained = TrainedModel.open(run)
    graphs = trained.graphs(split="train")
    known = [graphs[place].descriptors[0, -1].item() for place in range(len(graphs))]
    mean = np.nanmean(known)  # of the training rows only
    assert model.descriptor_encoder.mean[-1].item() == pytest.approx(mean)

    predictions = tmp_path / "predictions.csv"
    assert main(["predict", str(run), str(table), "--out", str(predictions)]) == 0
    rows = read_rows(predictions)
    assert all(row["predicted_weight"] and not row["reason"] for row in rows)
    expected = trained.predict(trained.graphs(split="all"))[:, 0].tolist()
    assert [float(row["predicted_weight"]) for row in rows] == pytest.approx(expected, rel=1e-4)
    assert trained.evaluate(trained.graphs())["mae"] > 0

    other = write_table(tmp_path / "other.csv", molecule_rows())
    capsys.readouterr()
    assert main(["predict", str(run), str(other), "--out", str(predictions)]) == 2
    assert "column 'extra': unknown" in capsys.readouterr().err


def test_descriptors_change_the_prediction(table, tmp_path):
    run = tmp_path / "run"
    arguments = ["--target", "weight", "--descriptors", "extra", "--out", str(run), *SMALL]
    assert main(["train", str(table), *arguments]) == 0
    trained = TrainedModel.open(run)
    graphs = [trained.graphs(split="all")[0] for _ in range(2)]
    graphs[0].descriptors, graphs[1].descriptors = torch.zeros(1, 1), torch.full((1, 1), 60.0)
    one, other = trained.predict(graphs)
    assert (one - other).abs() > 1e-6


def test_estimators_take_descriptors():
    smiles = [row["smiles"] for row in molecule_rows()][:20]
    model = EigenformerRegressor(epochs=1, settings={"layers": 1}, descriptors=["morgan"])
    assert model.fit(smiles, [len(text) for text in smiles]).predict(["CCO"]).shape == (1,)
    wrong = EigenformerRegressor(epochs=1, descriptors=["morgen"])
    with pytest.raises(ValueError, match="descriptors: 'morgen': unknown; the nearest is 'morgan'"):
        wrong.fit(smiles, [len(text) for text in smiles])
