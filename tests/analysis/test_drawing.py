"""Drawings: every node in its place, every bond of its kind."""

from __future__ import annotations

import numpy as np
import pytest

from eigenformer.analysis.drawing import (
    MOST_NODES,
    draw_features,
    draw_graph,
    draw_smiles,
    draw_superpixels,
)
from eigenformer.data.errors import DataError
from eigenformer.data.molecules import featurizer


def test_a_molecule_keeps_its_atoms_in_order_and_its_bonds() -> None:
    drawing = draw_smiles("OC(=O)C#N")
    assert drawing.labels == ("O", "C", "O", "C", "N")
    assert drawing.orders.tolist() == [1, 2, 1, 3]
    lengths = np.linalg.norm(np.diff(drawing.positions[drawing.edges], axis=1)[:, 0], axis=1)
    assert lengths == pytest.approx(1, abs=0.1)
    assert drawing.is_molecule


@pytest.mark.parametrize("name", ["molecule", "ogb", "zinc"])
def test_a_molecule_is_read_back_from_its_features(name: str) -> None:
    smiles = "C[N+](C)(C)CC(=O)[O-]"
    graph = featurizer(name)(smiles)
    drawing = draw_features(graph.edge_index, graph.x, graph.edge_attr, name)
    expected = draw_smiles(smiles)
    assert drawing.labels == expected.labels
    bonds = zip(expected.edges.tolist(), expected.orders, strict=True)
    found = zip(drawing.edges.tolist(), drawing.orders, strict=True)
    assert {frozenset(edge): order for edge, order in found} == {
        frozenset(edge): order for edge, order in bonds
    }


def test_aromatic_bonds_survive_in_ogb_features() -> None:
    graph = featurizer("ogb")("c1ccccc1")
    assert set(draw_features(graph.edge_index, graph.x, graph.edge_attr, "ogb").orders) == {1.5}


def test_an_unknown_atom_is_a_star() -> None:
    graph = featurizer("zinc")("C[Se]C")
    assert draw_features(graph.edge_index, graph.x, graph.edge_attr, "zinc").labels[1] == "*"


def test_a_plain_graph_is_drawn_the_same_way_twice() -> None:
    edge_index = np.array([[0, 1, 1, 2, 2, 2, 3], [1, 0, 2, 1, 2, 3, 2]])
    first, second = draw_graph(edge_index, 5), draw_graph(edge_index, 5)
    assert np.array_equal(first.positions, second.positions)
    assert first.edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert np.isfinite(first.positions).all()
    assert len(first) == 5


def test_superpixels_are_where_they_are_in_the_picture() -> None:
    x = np.array([[0.3, 0.0, 0.0], [0.1, 0.0, 1.0], [0.2, 1.0, 0.0], [0.5, 1.0, 1.0]])
    edge_index = np.array([[0, 1, 1, 2], [1, 0, 3, 0]])
    drawing = draw_superpixels(edge_index, x)
    # Row 0 is above, column 0 is left.
    assert drawing.positions.tolist() == [[0, 0], [2, 0], [0, -2], [2, -2]]
    assert drawing.edges.tolist() == [[0, 1], [0, 2], [1, 3]]


def test_a_large_molecule_does_not_run_into_itself() -> None:
    glycines = "NCC(=O)" * 30 + "O"
    positions = draw_smiles(glycines).positions
    apart = np.linalg.norm(positions[:, None] - positions, axis=-1)
    assert apart[np.triu_indices(len(apart), 1)].min() > 0.4
    assert np.ptp(positions[:, 0]) > np.ptp(positions[:, 1])


@pytest.mark.parametrize("nodes", [1, 2])
def test_tiny_graphs_can_be_drawn(nodes: int) -> None:
    assert len(draw_graph(np.zeros((2, 0), np.int64), nodes)) == nodes


def test_a_graph_too_large_to_draw_is_refused() -> None:
    with pytest.raises(DataError, match=f"{MOST_NODES + 1} nodes are too many"):
        draw_graph(np.zeros((2, 0), np.int64), MOST_NODES + 1)


def test_carbon_has_a_letter_only_where_it_stands_alone() -> None:
    assert draw_smiles("C").letters == ("C",)
    assert draw_smiles("CO.C").letters == ("", "O", "C")


def test_the_refusal_of_a_huge_molecule_is_short() -> None:
    with pytest.raises(DataError, match="601 nodes are too many") as refusal:
        draw_smiles("C" * (MOST_NODES + 1))
    assert len(str(refusal.value)) < 150
