"""Networks against each other: validation over processor time, and the test result."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eigenformer.analysis.curves import metric_name
from eigenformer.experiments.comparison import Comparison
from eigenformer.experiments.comparison_tables import title
from eigenformer.experiments.paper_tables import mean_and_deviation
from eigenformer.options import NETWORK_NAMES
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import COLOURS, PAGE, house_style

_STYLES = ("-", (0, (4, 1.5)), (0, (1, 1.2)))


@house_style()
def draw_comparison(comparison: Comparison) -> Picture:
    """Draws the best validation so far against processor time, and the test results."""
    metric = metric_name(comparison.metric)
    several = len(comparison.seeds) > 1
    caption = (
        f"{title(comparison)}. Left: the best validation {metric} so far against processor time, a "
        f"line for each run. Right: the test {metric} of the best epoch of each run, and its mean"
        + (", with the standard deviation over the seeds." if several else ".")
    )
    picture = new_picture(PAGE, 2.6, caption, layout="constrained")
    left, right = picture.body.subplots(1, 2, width_ratios=(3, 2))
    best = np.maximum.accumulate if comparison.higher_is_better else np.minimum.accumulate
    for number, entry in enumerate(comparison.entries):
        colour = COLOURS[number % len(COLOURS)]
        style = _STYLES[number // len(COLOURS) % len(_STYLES)]
        name = NETWORK_NAMES.get(entry.name, entry.name)
        for run, (hours, values) in enumerate(entry.curves):
            marker = "." if len(values) < 3 else ""
            label = name if run == 0 else None
            left.plot(
                hours, best(values), color=colour, linestyle=style, marker=marker, label=label
            )
        mean, deviation = mean_and_deviation(entry.test)
        right.errorbar(mean, -number, xerr=deviation, color=colour, marker="o", ms=4, capsize=2)
        right.plot(entry.test, [-number] * len(entry.test), "|", color=colour, ms=7)
    _finish(left, not comparison.higher_is_better)
    left.set_xlabel("processor hours")
    left.set_title(f"validation {metric}", loc="left")
    left.legend(loc="lower right" if comparison.higher_is_better else "upper right")
    names = [NETWORK_NAMES.get(entry.name, entry.name) for entry in comparison.entries]
    right.set_yticks([-number for number in range(len(names))], names)
    right.set_ylim(0.5 - len(names), 0.5)
    right.set_title(f"test {metric}", loc="left")
    return picture


def _finish(ax: Axes, lower_is_better: bool) -> None:
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in ax.lines])
    values = values[np.isfinite(values)]
    if lower_is_better and len(values) and values.min() > 0 and values.max() > 2 * values.min():
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
