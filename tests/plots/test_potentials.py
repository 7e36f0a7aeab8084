from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from eigenformer.analysis.potentials import Curve, Potentials
from eigenformer.plots import picture_bytes
from eigenformer.plots.potentials import draw_potentials


def potentials(name: str) -> Potentials:
    x = np.linspace(0, 2, 21)
    adjacent = Curve(np.where(x < 1.5, 1 - x, np.nan), np.full(21, 0.01), np.full(21, 0.1))
    others = Curve(x / 10, np.full(21, 0.01), np.full(21, 0.1))
    return Potentials(name, 1234, 0.04, x, adjacent, others)


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_each_set_has_a_panel_with_two_curves_and_their_bands(count: int) -> None:
    picture = draw_potentials([potentials(f"set{i}") for i in range(count)])
    drawn = [ax for ax in picture.body.axes if ax.axison]
    assert [ax.get_title(loc="left") for ax in drawn] == [
        f"set{i}, 1,234 graphs" for i in range(count)
    ]
    for ax in drawn:
        assert [line.get_label() for line in ax.lines[1:]] == [
            "adjacent nodes",
            "non-adjacent nodes",
        ]
        assert len(ax.collections) == 4
    assert picture_bytes(picture, "png").startswith(b"\x89PNG")
    assert "95 % confidence interval" in picture.caption
