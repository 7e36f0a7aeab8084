from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from eigenformer.analysis.curves import RunCurves
from eigenformer.plots.training import SMOOTHED_FROM, draw_training


def curves(name: str, metric: str = "mae", epochs: int = 5, test: float | None = 0.25) -> RunCurves:
    numbers = np.arange(1, epochs + 1)
    return RunCurves(name, metric, metric != "mae", numbers, 1 / numbers, 2 / numbers, epochs, test)


def test_runs_of_one_metric_share_a_panel() -> None:
    picture = draw_training([curves("one"), curves("two", test=None)])
    loss, validation = picture.body.axes
    assert loss.get_yscale() == validation.get_yscale() == "log"
    legend = [text.get_text() for text in validation.get_legend().get_texts()]
    assert legend == ["one: test 0.2500", "two"]
    assert "'one' and 'two'" in picture.caption
    colours = {line.get_color() for line in loss.lines}
    assert len(colours) == 2


def test_each_metric_has_its_own_panel() -> None:
    axes = draw_training([curves("one"), curves("two", "accuracy")]).body.axes
    assert [ax.get_title(loc="left") for ax in axes] == [
        "training loss",
        "validation MAE",
        "validation accuracy",
    ]
    assert axes[2].get_yscale() == "linear"


def test_long_runs_are_smoothed_and_shown_as_they_are() -> None:
    run = curves("long", epochs=SMOOTHED_FROM + 1)
    loss = draw_training([run]).body.axes[0]
    raw, smooth = (line.get_ydata() for line in loss.lines)
    assert np.array_equal(raw, run.train_loss)
    assert smooth[30] == pytest.approx(run.train_loss[30])
    assert len(draw_training([curves("short")]).body.axes[0].lines) == 1
