"""Small charts as SVG, written directly so that they use the page's colours, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from eigenformer.pages.page import render_macro

_WIDTH, _HEIGHT, _SIDE = 460.0, 210.0, 360.0
_NOTHING = Markup('<p class="hint">No numbers to draw.</p>')
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 14.0, 12.0, 38.0


@dataclass(frozen=True, eq=False)
class Line:
    """A curve.

    Args:
        label: The label in the legend.
        x: ``[points]``.
        y: ``[points]``; points that are not finite are left out.
    """

    label: str
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels, with ticks at round values.

    Args:
        low: The lowest value.
        high: The highest value.
        start: The position of the lowest value, in pixels.
        end: The position of the highest value, in pixels.
        log: Whether the axis is logarithmic.
        whole: Whether only whole numbers make sense, as for epochs.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False

    def place(self, value: np.ndarray | float) -> np.ndarray:
        """Returns the positions of values, in pixels."""
        values = np.asarray(value, dtype=np.float64)
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(values), math.log(low), math.log(high)
        share = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Returns round values between the ends."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [step * 10.0**power for power in powers for step in (1, 2, 5)]
            inside = [value for value in found if self.low <= value <= self.high]
            return inside if len(inside) <= 8 else [v for v in inside if f"{v:e}"[0] == "1"]
        if self.high <= self.low:
            return [self.low]
        rough = (self.high - self.low) / count
        unit = 10.0 ** math.floor(math.log10(rough))
        step = min((m * unit for m in (1, 2, 5, 10)), key=lambda step: abs(math.log(step / rough)))
        if self.whole:
            step = max(1.0, round(step))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def line_chart(
    lines: Sequence[Line], x_label: str, title: str, mark: tuple[float, float] | None = None
) -> Markup:
    """Draws curves over a common axis, logarithmic if all values are positive and far apart.

    Args:
        lines: The curves.
        x_label: The label of the horizontal axis.
        title: A description of the curves for people who cannot see them.
        mark: A point to mark.
    """
    xs = np.concatenate([line.x for line in lines])
    ys = np.concatenate([line.y for line in lines])
    known = ys[np.isfinite(ys)]
    if not len(known):
        return _NOTHING
    log = bool(known.min() > 0 and known.max() > 5 * known.min())
    whole = bool((xs == np.rint(xs)).all())
    across = Axis(float(xs.min()), float(xs.max()), _LEFT, _WIDTH - _RIGHT, whole=whole)
    up = _vertical(known, log)
    curves = []
    for line in lines:
        keep = np.isfinite(line.y)
        path = _path(across.place(line.x[keep]), up.place(line.y[keep]))
        if path and "L" not in path:
            path += "h0"  # a single epoch is a dot: a line of zero length with round ends
        curves.append({"label": line.label, "path": path})
    place = None
    if mark is not None and np.isfinite(mark[1]):
        place = across.place(mark[0]), up.place(mark[1])
    return render_macro(
        "charts.html",
        "lines",
        across=across,
        up=up,
        x_label=x_label,
        label=f"{title} over {x_label}: {', '.join(line.label for line in lines)}",
        width=_WIDTH,
        height=_HEIGHT,
        curves=curves,
        mark=place,
    )


def scatter_chart(pairs: np.ndarray, x_label: str, y_label: str) -> Markup:
    """Draws points, and the line on which both coordinates are equal."""
    known = pairs[np.isfinite(pairs).all(1)]
    if not len(known):
        return _NOTHING
    low, high = float(known.min()), float(known.max())
    side = _SIDE - _LEFT - _RIGHT
    across = Axis(low, high, _LEFT, _LEFT + side)
    up = Axis(low, high, _TOP + side, _TOP)
    points = zip(across.place(known[:, 0]), up.place(known[:, 1]), strict=True)
    return render_macro(
        "charts.html",
        "scatter",
        across=across,
        up=up,
        x_label=x_label,
        y_label=y_label,
        label=f"{y_label} against {x_label}, {len(known)} points",
        width=_SIDE,
        height=_TOP + side + _BOTTOM,
        dots="".join(f"M{x:.1f} {y:.1f}h0" for x, y in points),
    )


def points_chart(x: np.ndarray, y: np.ndarray, x_label: str, y_label: str) -> Markup:
    """Draws points, with a logarithmic axis if their places are positive and far apart."""
    if not len(x):
        return _NOTHING
    low, high = _ends(x)
    log = bool(low > 0 and high > 20 * low)
    across = Axis(low, high, _LEFT + 8, _WIDTH - _RIGHT, log, bool((x == np.rint(x)).all()))
    up = _vertical(y, log=False)
    points = zip(across.place(x), up.place(y), strict=True)
    return render_macro(
        "charts.html",
        "points",
        across=across,
        up=up,
        x_label=x_label,
        label=f"{y_label} against {x_label}, {len(x)} points",
        width=_WIDTH,
        height=_HEIGHT,
        dots="".join(f"M{x:.1f} {y:.1f}h0" for x, y in points),
    )


def small_multiples(curves: np.ndarray, x: np.ndarray, label: str) -> Markup:
    """Draws a small curve per layer (row) and head (column), each on its own scale.

    Args:
        curves: ``[layers, heads, samples]``.
        x: ``[samples]``, or the shape of ``curves`` if each curve has its own.
        label: What the curves are.
    """
    layers, heads, _ = curves.shape
    wide, high, margin, top = 62.0, 40.0, 22.0, 16.0
    places = np.broadcast_to(x, curves.shape)
    frames, zeros, lines = [], [], []
    names: list[tuple[float, float, int]] = [
        (margin + (head + 0.5) * wide, 11, head) for head in range(heads)
    ]
    for layer in range(layers):
        names.append((9, top + (layer + 0.6) * high, layer))
        for head in range(heads):
            left, up = margin + head * wide, top + layer * high
            across = Axis(*_ends(places[layer, head]), left + 3, left + wide - 7)
            upward = Axis(*_ends(curves[layer, head]), up + high - 8, up + 5)
            frames.append(f"M{left:.0f} {up:.0f}h{wide - 4:.0f}v{high - 3:.0f}h{4 - wide:.0f}z")
            if upward.low < 0 < upward.high:
                y = float(upward.place(0.0))
                zeros.append(f"M{left:.0f} {y:.1f}h{wide - 4:.0f}")
            xs, ys = across.place(places[layer, head]), upward.place(curves[layer, head])
            lines.append(_path(xs, ys))
    return render_macro(
        "charts.html",
        "multiples",
        label=label,
        width=margin + heads * wide,
        height=top + layers * high,
        names=names,
        cells="".join(frames),
        zeros="".join(zeros),
        curves="".join(lines),
    )


def _vertical(values: np.ndarray, log: bool) -> Axis:
    low, high = _ends(values)
    margin = 0.04 * (high - low)
    if log:
        low, high = low / 1.08, high * 1.08
    elif high > low:
        low, high = low - margin, high + margin
    return Axis(low, high, _HEIGHT - _BOTTOM, _TOP, log)


def _ends(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _path(xs: np.ndarray, ys: np.ndarray) -> str:
    points = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
    return f"M{points}" if points else ""
