"""Training curves of several runs in one picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eigenformer.analysis.curves import RunCurves, metric_name
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import COLOURS, PAGE, house_style

_STYLES = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


@house_style()
def draw_training(runs: Sequence[RunCurves]) -> Picture:
    """Draws the training loss and the validation metric of each run over its epochs."""
    metrics = list(dict.fromkeys(run.metric for run in runs))
    smoothed = any(len(run.epochs) > SMOOTHED_FROM for run in runs)
    caption = (
        f"Training loss (left) and validation {', '.join(map(metric_name, metrics))} over the "
        f"epochs of {_listing([run.name for run in runs])}. A dot marks the epoch with the best "
        f"validation, whose weights are kept; the legend gives their test metric where the run is "
        f"finished."
        + (" Faint: every epoch; strong: the running median over a twentieth of them." * smoothed)
    )
    picture = new_picture(PAGE, 2.3, caption, layout="constrained")
    axes = picture.body.subplots(1, 1 + len(metrics))
    for number, run in enumerate(runs):
        colour = COLOURS[number % len(COLOURS)]
        style = _STYLES[number // len(COLOURS) % len(_STYLES)]
        _curve(axes[0], run.epochs, run.train_loss, colour, style)
        ax = axes[1 + metrics.index(run.metric)]
        _curve(ax, run.epochs, run.validation, colour, style, _label(run))
        best = run.epochs == run.best_epoch
        ax.plot(run.epochs[best], run.validation[best], "o", ms=3.5, color=colour, zorder=3)
    _finish(axes[0], "training loss", True)
    for ax, metric in zip(axes[1:], metrics, strict=True):
        lower = not any(run.higher_is_better for run in runs if run.metric == metric)
        _finish(ax, f"validation {metric_name(metric)}", lower)
        ax.legend(loc="upper right" if lower else "lower right")
    return picture


SMOOTHED_FROM = 60
"""Longer runs are drawn twice, as they are and smoothed."""


def _curve(
    ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, style: object, label: str | None = None
) -> None:
    if len(y) <= SMOOTHED_FROM:
        ax.plot(x, y, color=colour, linestyle=style, label=label, marker="." if len(y) < 2 else "")
        return
    ax.plot(x, y, color=colour, linewidth=0.5, alpha=0.35)
    reach = max(1, len(y) // 40)
    padded = np.pad(y, reach, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    ax.plot(x, np.nanmedian(windows, 1), color=colour, linestyle=style, label=label)


def _finish(ax: Axes, title: str, lower_is_better: bool) -> None:
    ax.set_title(title, loc="left")
    ax.set_xlabel("epoch")
    values = np.concatenate([np.zeros(0), *(line.get_ydata() for line in ax.lines)])
    values = values[np.isfinite(values)]
    if lower_is_better and len(values) and values.min() > 0 and values.max() > 2 * values.min():
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())


def _label(run: RunCurves) -> str:
    return run.name if run.test is None else f"{run.name}: test {run.test:.4f}"


def _listing(names: Sequence[str]) -> str:
    shown = [f"'{name}'" for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
