"""Pictures → superpixel graphs, with scikit-image's SLIC (extra ``images``)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.data.superpixels import Superpixels, superpixel_archive
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Slic:
    """How pictures are divided into superpixels; the defaults are those of CIFAR10.

    Args:
        start: The number of superpixels requested first; it is reduced by one until at most
            ``most`` are found.
        most: The maximum number of superpixels.
        compactness: The weight of proximity in the picture relative to similarity in colour.
    """

    start: int = 200
    most: int = 150
    compactness: float = 10.0


def is_image_folder(folder: Path) -> bool:
    """Returns whether a folder holds pictures, or folders of pictures."""
    return next(_images(folder), None) is not None


def read_image_folder(
    folder: Path,
    slic: Slic | None = None,
    reporter: Reporter | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> GraphArchive:
    """Reads a folder of pictures as graphs.

    Subfolders are classes. Without subfolders, the graphs have no targets.
    """
    reporter = reporter or Reporter()
    files = sorted(_images(folder))
    if not files:
        raise DataError(Problem(str(folder), "contains no pictures"))
    pictures = []
    with reporter.step("superpixels", len(files), unit="pictures") as step:
        for file in files:
            pictures.append(superpixels_of(read_image(file, limits), slic))
            step.advance(1)
    channels = {picture.colour.shape[1] for picture in pictures}
    if len(channels) > 1:
        odd = next(
            file
            for file, picture in zip(files, pictures, strict=True)
            if picture.colour.shape[1] != pictures[0].colour.shape[1]
        )
        raise DataError(Problem(str(odd), "grey and coloured pictures are mixed"))
    parents = [file.parent.name for file in files if file.parent != folder]
    classes = sorted(set(parents)) if len(parents) == len(files) else []
    labels = np.array([classes.index(name) for name in parents]) if classes else None
    names = [str(file.relative_to(folder)) for file in files]
    return superpixel_archive(Superpixels.joined(pictures), labels, classes, None, reporter, names)


def superpixels_of(image: np.ndarray, slic: Slic | None = None) -> Superpixels:
    """Returns the superpixels of one picture.

    The picture is ``[height, width]`` or ``[height, width, 3]``, with values in 0..255.
    """
    segmentation, slic = _skimage("segmentation"), slic or Slic()
    grey = image.ndim == 2
    pixels = image.reshape(*image.shape[:2], -1).astype(np.float64)
    count = wanted = slic.start
    labels = np.zeros(image.shape[:2], dtype=np.int64)
    while wanted > 0:
        labels = segmentation.slic(
            image / 255.0 if grey else image,
            n_segments=wanted,
            compactness=slic.compactness,
            channel_axis=None if grey else -1,
            start_label=0,
        )
        labels = np.unique(labels, return_inverse=True)[1].reshape(image.shape[:2])
        count = int(labels.max()) + 1
        if count <= slic.most:
            break
        wanted -= 1
    flat = labels.reshape(-1)
    area = np.bincount(flat, minlength=count).astype(np.float64)[:, None]

    def mean(values: np.ndarray) -> np.ndarray:
        columns = values.reshape(len(flat), -1).T
        sums = [np.bincount(flat, column, minlength=count) for column in columns]
        return np.stack(sums, axis=1) / area

    rows, columns = np.indices(image.shape[:2])
    place = mean(np.stack([rows, columns], axis=-1)) / max(image.shape[:2])
    return Superpixels(np.array([count]), mean(pixels) / 255, place)


def read_image(file: Path, limits: Limits = DEFAULT_LIMITS) -> np.ndarray:
    """Reads a picture with values in 0..255, in grey or with three colours."""
    with placed(file):
        limits.check("pixels", _pixels(file))
    try:
        image = np.asarray(_skimage("io").imread(file))
    except Exception as error:  # a library may raise anything for a damaged file
        reason = str(error).partition("\n")[0]
        raise DataError(Problem(str(file), f"not a picture ({reason})")) from None
    if image.dtype != np.uint8:
        raise DataError(Problem(str(file), f"{image.dtype} pixels, expected 8 bits per colour"))
    if image.ndim == 3 and image.shape[2] in (2, 4):  # the last channel is transparency
        image = image[..., :-1]
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise DataError(Problem(str(file), f"shape {image.shape}, expected grey or three colours"))
    return image


def _pixels(file: Path) -> int:
    """Returns the number of pixels that a picture declares, of all its frames; 0 if unknown."""
    from PIL import Image

    try:
        # Pillow warns of large pictures; this limit is our own.
        with warnings.catch_warnings(), Image.open(file) as picture:
            warnings.simplefilter("ignore")
            return picture.width * picture.height * int(getattr(picture, "n_frames", 1))
    except Exception:  # not a picture, which reading it will say
        return 0


def _images(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES)


def _skimage(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"skimage.{module}")
    except ImportError:
        raise DataError(
            "pictures need scikit-image: install it with  pip install 'eigenformer[images]'"
        ) from None
