"""The figures of ablations."""

from __future__ import annotations

import pytest

from eigenformer.experiments.ablation_tables import Series
from eigenformer.plots.ablation import draw_frequencies, draw_parts
from eigenformer.plots.picture import picture_bytes
from tests.experiments.test_parts import parts_ablation


def test_every_curve_is_sampled_and_named_once() -> None:
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


def test_every_ingredient_has_a_point_with_its_gain() -> None:
    picture = draw_parts(parts_ablation(), "MAE")
    ax = picture.body.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["phi_gain", "drop_path"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        *("switched on over zinc", "switched off from zinc-plus")
    ]
    on, off = (container.lines[0].get_xdata() for container in ax.containers)
    assert list(on) == pytest.approx([32.5, -12.5])
    assert list(off) == pytest.approx([35])
    assert "2 minutes" in picture.caption
    assert picture_bytes(picture).startswith(b"<?xml")
    box = ax.get_legend().get_window_extent()
    assert box.y0 >= ax.bbox.y1  # it hides no point
