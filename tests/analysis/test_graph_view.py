"""One graph to look at, from whatever the user has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenformer.analysis.explanation import attention_of
from eigenformer.analysis.graph_view import find_graph, view_graph
from eigenformer.data.errors import DataError
from eigenformer.data.sbm import pattern
from eigenformer.models.eigenformer import Eigenformer


def test_a_smiles_is_a_view() -> None:
    view = find_graph("CCO", featurizer="zinc")
    assert view.name == "CCO"
    assert view.eigenvalues == pytest.approx([0, 1, 2], abs=1e-6)
    assert view.eigenvectors.T @ view.eigenvectors == pytest.approx(np.eye(3), abs=1e-6)


def test_a_table_is_a_view_with_an_index(tmp_path: Path) -> None:
    table = tmp_path / "m.csv"
    table.write_text("smiles\nCC\nCCO\n")
    assert find_graph(str(table), 1).drawing.labels == ("C", "C", "O")
    with pytest.raises(DataError, match="graph 2: the data has 2 graphs"):
        find_graph(str(table), 2)


def test_a_long_smiles_is_not_taken_for_a_path() -> None:
    assert len(find_graph("C" * 300).drawing) == 300


def test_a_file_that_is_not_there_is_not_taken_for_a_molecule() -> None:
    with pytest.raises(DataError, match="no such file"):
        find_graph("nowhere/m.csv")
    with pytest.raises(DataError, match="nonsense"):
        find_graph("nonsense")


@pytest.mark.parametrize("preset", ["zinc", "zinc-feat"])
def test_attention_rows_sum_to_one_and_leave_the_model_as_it_was(preset: str) -> None:
    model = Eigenformer.from_preset(preset, layers=2).train()
    view = find_graph("CC(=O)O", featurizer="zinc")
    seen = attention_of(model, view.data)
    assert seen.weights.shape == (2, 8, 4, 4)
    assert seen.weights.sum(-1).numpy() == pytest.approx(1, abs=1e-5)
    assert model.training


def test_a_generated_graph_is_a_view() -> None:
    view = view_graph(pattern((1, 1, 1)), 2)
    assert view.name == "graph 2"
    assert not view.drawing.is_molecule
    assert len(view.drawing) == view.data.num_nodes
