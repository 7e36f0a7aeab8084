from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from eigenformer.analysis.filters import Filters, learned_filters
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.plots.filters import draw_filters


@pytest.fixture(scope="module")
def filters() -> Filters:
    return learned_filters(Eigenformer.from_preset("zinc", layers=12, phi_width=4))


def texts(picture) -> list[str]:
    found = []
    for part in picture.body.subfigs:
        found += [text.get_text() for text in part.axes[0].texts]
    return found


def test_every_layer_and_head_has_two_cells(filters: Filters) -> None:
    picture = draw_filters(filters, "model")
    shown = texts(picture)
    assert sum(text.startswith("Δ") for text in shown) == 2 * 12 * 8
    assert {"layer 0", "layer 11", "head 0", "head 7"} <= set(shown)
    assert min(t.get_fontsize() for t in picture.figure.findobj(match=_has_text)) >= 7
    assert "model" in picture.caption


def _has_text(artist) -> bool:
    return bool(getattr(artist, "get_text", lambda: "")())


def test_some_of_them(filters: Filters) -> None:
    shown = texts(draw_filters(filters, "model", [2, 5], [1]))
    assert {"layer 2", "layer 5", "head 1"} <= set(shown)
    assert not {"layer 0", "head 0"} & set(shown)


@pytest.mark.parametrize("heads", [None, [1, 2]])
def test_spectral_filters_have_cells_of_their_own(heads: list[int] | None) -> None:
    model = Eigenformer.from_preset("zinc", layers=2, phi_width=4, filters=18)
    picture = draw_filters(learned_filters(model), "model", heads=heads)
    shown = texts(picture)
    count = 8 if heads is None else len(heads)
    assert sum(text.startswith("Δ") for text in shown) == 2 * (2 * count + 18)
    assert {"filter", "0", "17"} <= set(shown)
    assert "spectral filter" in picture.caption
    assert min(t.get_fontsize() for t in picture.figure.findobj(match=_has_text)) >= 7


def test_one_of_them_has_the_curves_themselves(filters: Filters) -> None:
    left, right = draw_filters(filters, "model", [2], [1]).body.axes
    assert np.array_equal(left.lines[-1].get_ydata(), filters.phi2[2, 1])
    logits = right.lines[-1].get_ydata()
    assert np.diff(logits) == pytest.approx(np.diff(filters.phi1[2, 1]), abs=1e-6)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (([12], None), "layer 12: the model has 12, counted from 0"),
        ((None, [0, -1]), "head -1: the model has 8, counted from 0"),
    ],
)
def test_unknown_layers_and_heads(filters: Filters, chosen, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_filters(filters, "model", *chosen)


def test_a_head_that_learned_nothing_can_be_drawn() -> None:
    flat = np.zeros((1, 2, 5), np.float32)
    nothing = Filters(np.linspace(0, 2, 5), flat, flat, flat, flat[..., 0])
    assert texts(draw_filters(nothing, "model")).count("Δ 0.00") == 4
