"""A picture with its caption, and the files that it is written to."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.transforms import Bbox

from eigenformer.files import write_atomic
from eigenformer.nearest import unknown
from eigenformer.plots.style import SMALL, house_style

Layout = Literal["constrained"] | None
FORMATS = ("pdf", "png", "svg")

_DPI = 200  # of a PNG
_MARGIN = 0.06  # inches
_LINE = SMALL * 1.3 / 72  # the line height of the caption, in inches


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure and a caption that says what it shows.

    Args:
        figure: The whole figure, with the caption at the bottom.
        body: The part above the caption, which contains the drawing.
        caption: The text of the caption.
    """

    figure: Figure
    body: SubFigure
    caption: str

    def _repr_png_(self) -> bytes:
        """Returns the PNG that a notebook shows."""
        return picture_bytes(self, "png", dpi=100)


@house_style()
def new_picture(width: float, height: float, caption: str, layout: Layout = None) -> Picture:
    """Creates an empty picture with its caption below.

    Args:
        width: The width of the body and the caption, in inches.
        height: The height of the body, in inches.
        caption: What the picture shows.
        layout: matplotlib's layout engine (default: none, axes stay where they are put).
    """
    # Browsers and other fonts set letters slightly wider.
    lines = list(_wrapped(caption, 0.95 * (width - 2 * _MARGIN)))
    strip = len(lines) * _LINE + 1.5 * _MARGIN
    figure = Figure((width, height + strip), layout=layout)
    body, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(height, strip))[:, 0]
    below.text(
        _MARGIN / width,
        1 - _MARGIN / strip,
        "\n".join(lines),
        va="top",
        fontsize=SMALL,
        linespacing=1.1,
        parse_math=False,
    )
    return Picture(figure, body, caption)


def picture_format(path: str | Path) -> str:
    """Returns the format that belongs to a file's ending."""
    ending = Path(path).suffix[1:]
    if ending.lower() not in FORMATS:
        raise ValueError(unknown(f"{path}: the ending '{ending}'", ending, FORMATS))
    return ending.lower()


@house_style()
def picture_bytes(
    picture: Picture, kind: str = "svg", with_caption: bool = True, dpi: int = _DPI
) -> bytes:
    """Returns the content of a picture's file. The same picture gives the same bytes.

    Args:
        picture: The picture.
        kind: ``svg``, ``pdf`` or ``png``.
        with_caption: Whether the caption is visible, or only part of the file's metadata.
        dpi: The resolution of a PNG.
    """
    about = "Subject" if kind == "pdf" else "Description"
    dates = {"svg": "Date", "pdf": "CreationDate"}
    metadata = {about: picture.caption, **({dates[kind]: None} if kind in dates else {})}
    below = picture.figure.subfigs[1]
    width, height = picture.figure.get_size_inches()
    strip = 0.0 if with_caption else height * _share(picture)
    stream = io.BytesIO()
    below.set_visible(with_caption)
    try:
        picture.figure.savefig(
            stream,
            format=kind,
            dpi=dpi,
            metadata=metadata,
            bbox_inches=Bbox([[0, strip], [width, height]]),
        )
    finally:
        below.set_visible(True)
    # Verdana has almost the same widths, if DejaVu is not installed.
    return stream.getvalue().replace(b"'DejaVu Sans'", b"'DejaVu Sans', Verdana, sans-serif")


def save_picture(picture: Picture, path: str | Path) -> None:
    """Writes a picture atomically. The file's ending selects SVG, PDF or PNG."""
    path = Path(path)
    content = picture_bytes(picture, picture_format(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)


def _share(picture: Picture) -> float:
    body, below = picture.figure.subfigs
    return below.bbox.height / (below.bbox.height + body.bbox.height)


def _wrapped(text: str, width: float) -> Iterator[str]:
    """Yields the lines of a caption, each at most ``width`` inches wide."""
    canvas = FigureCanvasAgg(Figure((1, 1), dpi=_DPI))
    measure, font = canvas.get_renderer(), FontProperties(size=SMALL)
    line = ""
    for word in text.split(" "):  # not at the non-breaking spaces of a formula
        longer = f"{line} {word}".strip()
        wide = measure.get_text_width_height_descent(longer, font, False)[0] > _DPI * width
        if line and wide:
            yield line
            longer = word
        line = longer
    if line:
        yield line
