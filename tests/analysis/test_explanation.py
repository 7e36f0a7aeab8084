"""Explanations: the prediction is that of ``predict``, the graph is the one that was meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenformer.analysis import explanation
from eigenformer.analysis.explanation import explain
from eigenformer.data.errors import DataError
from eigenformer.model_folder import ModelCard, ModelFolderError, save_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.trained_model import TrainedModel
from eigenformer.training.prediction import predict_file
from tests.training.samples import read_rows


def test_a_molecule_is_predicted_as_predict_does(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "m.csv"
    table.write_text("smiles\nCCCN\nCC(=O)O\n")
    predict_file(TrainedModel.open(run), table, tmp_path / "p.csv")
    expected = [float(row["predicted_weight"]) for row in read_rows(tmp_path / "p.csv")]
    found = explain(TrainedModel.open(run), "CC(=O)O")
    assert found.prediction.item() == pytest.approx(expected[1], rel=1e-4)
    assert found.attention.shape == (1, 8, 4, 4)
    assert found.truth is None
    assert found.model == "run"
    by_row = explain(TrainedModel.open(run), str(table), index=1)
    assert by_row.prediction.item() == pytest.approx(expected[1], rel=1e-4)


def test_the_runs_own_graphs_have_their_truth(run: Path) -> None:
    found = explain(TrainedModel.open(run), "test", index=2)
    assert found.truth is not None
    assert found.truth.shape == (1, 1)
    assert np.isfinite(found.truth).all()
    with pytest.raises(DataError, match="graph 6: 'test' has 6 graphs"):
        explain(TrainedModel.open(run), "test", index=6)


def test_too_many_weights_for_a_page(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "MOST_WEIGHTS", 100)
    with pytest.raises(DataError, match="4 nodes have 128 attention weights"):
        explain(TrainedModel.open(run), "CCCC")


def test_models_that_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no model here"):
        explain(TrainedModel.open(tmp_path), "CC")
    save_model(tmp_path, Eigenformer.from_preset("zinc", layers=1))
    with pytest.raises(ModelFolderError, match="does not say what it predicts"):
        explain(TrainedModel.open(tmp_path), "CC")


def test_graphs_that_the_model_does_not_know(run: Path, tmp_path: Path) -> None:
    from eigenformer.model_folder import read_card

    card = read_card(run)
    other = Eigenformer.from_preset("pattern", layers=1, pooling="sum")
    save_model(tmp_path, other, ModelCard(other.config, card.target, card.input_format, card.data))
    with pytest.raises(DataError, match="not trained on such graphs"):
        explain(TrainedModel.open(tmp_path), "CC")
