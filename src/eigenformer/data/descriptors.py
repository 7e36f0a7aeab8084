"""Descriptors of molecules: numbers beside the graph, computed by RDKit or read from a table.

A missing descriptor, or one that cannot be computed, is NaN. A model replaces it by the mean of its
training set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eigenformer.data.cells import is_missing, named, read_number
from eigenformer.data.errors import DataError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

_BITS, _RADIUS = 1024, 2


def rdkit2d(molecule: Mol) -> np.ndarray:
    """Returns all descriptors of RDKit that need no coordinates, in the order of their names."""
    from rdkit import rdBase
    from rdkit.Chem import Descriptors

    values = []
    with rdBase.BlockLogs():
        for _, function in sorted(Descriptors.descList):
            try:
                values.append(float(function(molecule)))
            except (ArithmeticError, RuntimeError, ValueError):  # for some metals, for example
                values.append(np.nan)
    return np.array(values)


def morgan(molecule: Mol) -> np.ndarray:
    """Returns how often each of 1,024 classes of environments occurs, up to two bonds wide."""
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=_RADIUS, fpSize=_BITS)
    return generator.GetCountFingerprintAsNumPy(molecule).astype(np.float64)


SETS: dict[str, Callable[[Mol], np.ndarray]] = {"rdkit2d": rdkit2d, "morgan": morgan}
"""The sets of descriptors that are computed from a molecule, by name."""


def computed(names: Sequence[str]) -> tuple[str, ...]:
    """Returns those of the names that are sets of descriptors; all others are columns."""
    return tuple(name for name in names if name in SETS)


def columns(names: Sequence[str]) -> tuple[str, ...]:
    """Returns those of the names that are columns of a table."""
    return tuple(name for name in names if name not in SETS)


def compute(molecule: Mol, names: Sequence[str]) -> np.ndarray:
    """Returns the descriptors of a molecule, ``[k]``, set by set. Those not finite are NaN."""
    parts = [SETS[name](molecule) for name in computed(names)]
    return in_single_precision(np.concatenate(parts) if parts else np.zeros(0))


def read(cells: Mapping[str, str], names: Sequence[str]) -> np.ndarray:
    """Returns the descriptors in the cells of a row, column by column. Empty cells are NaN."""
    values = []
    for name in columns(names):
        if name not in cells:
            raise DataError(f"descriptors: column '{name}' is missing")
        with named(name):
            values.append(np.nan if is_missing(cells[name]) else read_number(cells[name]))
    return in_single_precision(np.array(values, dtype=np.float64))


def in_single_precision(values: np.ndarray) -> np.ndarray:
    """Returns numbers as float32; NaN for those beyond it."""
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    return np.where(np.isfinite(values), values, np.float32(np.nan))
