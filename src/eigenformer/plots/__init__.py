"""Draws the results of :mod:`eigenformer.analysis` as pictures.

Every function returns a :class:`Picture`; :func:`save_picture` writes it as SVG, PDF or PNG.
"""

from __future__ import annotations

try:
    import matplotlib as matplotlib
except ImportError:
    raise ImportError(
        "pictures need matplotlib: install it with  pip install 'eigenformer[plots]'"
    ) from None

from eigenformer.plots.picture import Picture, picture_bytes, picture_format, save_picture

__all__ = ["Picture", "picture_bytes", "picture_format", "save_picture"]
