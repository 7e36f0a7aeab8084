"""The house style: legible at column width, safe for colour-blind readers, no ornaments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler

COLUMN, PAGE = 3.4, 7.0
"""The widths that pictures are made for, in inches: one column of a page, and all of it."""

# Okabe and Ito's palette, which is distinguishable with every kind of colour vision.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE, BLACK, GREY = "#56B4E9", "#E69F00", "#222222", "#8A8A8A"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, BLACK)

PALE, FAINT = "#BDBDBD", "#E6E6E6"
"""The colours of guide lines and of areas."""

SIGNED = "RdBu_r"
"""The colour map of values with a sign: white is 0, red is positive."""

AMOUNT = "magma_r"
"""The colour map of values without a sign: perceptually uniform, light is little."""

SMALL = 7.0
"""No text is smaller, in points at the picture's own size."""

_SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "axes.titlepad": 4,
    "axes.labelpad": 2.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.edgecolor": BLACK,
    "axes.labelcolor": BLACK,
    "text.color": BLACK,
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.3,
    "lines.solid_capstyle": "round",
    "figure.dpi": 100,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    # Text stays text: small files that can be searched and read aloud.
    "svg.fonttype": "none",
    "svg.hashsalt": "eigenformer",
    "pdf.fonttype": 42,
}


@contextmanager
def house_style() -> Iterator[None]:
    """A context manager or decorator, in which pictures are drawn and written."""
    with matplotlib.rc_context(_SETTINGS):
        yield
