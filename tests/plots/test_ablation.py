"""The figure of fewer frequencies."""

from __future__ import annotations

from eigenformer.experiments.ablation_tables import Series
from eigenformer.plots.ablation import draw_frequencies
from eigenformer.plots.picture import picture_bytes


def test_every_curve_is_drawn_and_named_once() -> None:
    shares, none = (1.0, 0.5), (0.0, 0.0)
    curves = [
        Series("eigenspaces", False, shares, (0.0, 12.0), (1.0, 2.0)),
        Series("eigenspaces", True, shares, (0.0, 20.0), (1.0, 2.0)),
        Series("paper", False, shares, (0.0, 30.0), none),
    ]
    picture = draw_frequencies(curves, "mae", "zinc-feat, 3 epochs")
    ax = picture.body.axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        *("whole eigenspaces", "the paper")
    ]
    assert ax.get_xlim()[0] > ax.get_xlim()[1]  # fewer frequencies to the right, as in the paper
    assert "standard deviation" in picture.caption
    assert picture_bytes(picture).startswith(b"<?xml")
