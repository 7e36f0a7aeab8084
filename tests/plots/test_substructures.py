from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rdkit")

from eigenformer.analysis.graph_view import find_graph, view_graph
from eigenformer.analysis.substructures import substructures
from eigenformer.data.sbm import pattern
from eigenformer.plots import picture_bytes
from eigenformer.plots.substructures import draw_substructures


def test_the_molecule_and_a_panel_for_each_eigenvector() -> None:
    found = substructures(find_graph("CC(=O)[O-]"))
    picture = draw_substructures(found)
    structure, *panels, _ = picture.body.axes
    assert [text.get_text() for text in structure.texts] == ["O", "O−"]
    assert [ax.get_title() for ax in panels] == [
        "k = 1: λ = 0.00",
        "k = 2: λ = 1.00 (×2)",
        "k = 3: λ = 1.00 (×2)",
        "k = 4: λ = 2.00",
    ]
    (discs,) = panels[3].collections
    assert np.asarray(discs.get_array()) == pytest.approx(found.eigenvectors[:, 3])
    low, high = discs.get_clim()
    assert low == -high  # white is zero
    assert "(×)" in picture.caption


@pytest.mark.parametrize("smiles", ["C", "CC", "C#N", "[Na+].[Cl-]", "C" * 80])
def test_molecules_of_any_shape(smiles: str) -> None:
    picture = draw_substructures(substructures(find_graph(smiles), most=6))
    assert picture_bytes(picture, "png").startswith(b"\x89PNG")


def test_a_graph_that_is_no_molecule() -> None:
    picture = draw_substructures(substructures(view_graph(pattern((1, 1, 1)), 0), most=4))
    structure, *panels, _ = picture.body.axes
    assert not structure.texts
    assert len(panels) == 4
    assert "the 2 lowest and the 2 highest" in picture.caption
