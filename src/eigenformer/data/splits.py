"""Which graphs to train on, to validate on, and to test on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eigenformer.config import ConfigError, SplitOptions
from eigenformer.config.data import FRACTIONS
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.fields import SPLITS
from eigenformer.nearest import unknown

# Targets with more values than this are numbers, not classes: tenths of them are balanced.
_MAX_CLASSES = 20
_ALIASES = {"valid": "val", "validation": "val", "dev": "val", "training": "train"}


def random_split(count: int, fractions: Sequence[float] = FRACTIONS, seed: int = 0) -> np.ndarray:
    """Every graph at random, the parts as large as the fractions say."""
    sizes = _sizes(count, fractions)
    split = np.repeat(np.arange(len(SPLITS), dtype=np.uint8), sizes)
    return np.random.default_rng(seed).permutation(split)


def stratified_split(
    targets: np.ndarray, fractions: Sequence[float] = FRACTIONS, seed: int = 0
) -> np.ndarray:
    """At random, but with the same mix of targets in each part.

    Classes are balanced as they are, numbers by tenths of their range of ranks. Of several
    targets the combination counts; a missing one is a value of its own.
    """
    _sizes(len(targets), fractions)
    stratum = _strata(np.asarray(targets).reshape(len(targets), -1))
    shuffled = np.random.default_rng(seed).permutation(len(targets))
    order = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    split = np.empty(len(targets), dtype=np.uint8)
    owed = np.zeros(len(SPLITS))
    for graph in order:  # each goes where most is owed, so every stratum is shared out evenly
        owed += fractions
        part = int(np.argmax(owed))
        owed[part] -= 1
        split[graph] = part
    return split


def scaffold_split(smiles: Sequence[str], fractions: Sequence[float] = FRACTIONS) -> np.ndarray:
    """By Bemis–Murcko scaffold: molecules with one scaffold stay together.

    The most frequent scaffolds go to train, so that val and test hold the rare ones: a harder,
    more honest test of how a model does on new chemistry. There is no randomness in it.
    """
    from eigenformer.data.molecules import scaffold

    groups: dict[str, list[int]] = {}
    for index, text in enumerate(smiles):
        groups.setdefault(scaffold(text), []).append(index)
    sizes = _sizes(len(smiles), fractions)
    split = np.full(len(smiles), 2, dtype=np.uint8)
    filled = [0, 0]
    for group in sorted(groups.values(), key=lambda group: (-len(group), group[0])):
        for part in (0, 1):
            # The most frequent scaffold is train's, even if it is more than train's share.
            first = part == 0 and not filled[0] and sizes[0] > 0
            if first or filled[part] + len(group) <= sizes[part]:
                split[group] = part
                filled[part] += len(group)
                break
    return split


def read_split(cell: str) -> str:
    """The split a cell names; other common names for ``val`` and ``train`` count too."""
    name = cell.strip().lower()
    name = _ALIASES.get(name, name)
    if name not in SPLITS:
        raise DataError(unknown(f"split '{cell}'", name, SPLITS))
    return name


def split_archive(archive: GraphArchive, options: SplitOptions) -> GraphArchive:
    """The archive with the split that was asked for; its own where none is."""
    if options.split_by in (None, "column"):
        return archive
    if options.split_by == "random":
        split = random_split(len(archive), options.fractions, options.split_seed)
    elif options.split_by == "stratified":
        field = archive.fields.get("y")
        if field is None or field.level != "graph":
            raise DataError("split_by: 'stratified' needs targets of graphs")
        split = stratified_split(field.values, options.fractions, options.split_seed)
    else:
        texts = archive.fields.get("smiles")
        if texts is None and archive.meta.get("featurizer") not in ("ogb", "zinc"):
            raise DataError("split_by: 'scaffold' needs molecules")
        smiles = archive.names if texts is None else texts.values.tolist()
        if smiles is None:
            raise DataError("split_by: 'scaffold' needs the molecules' SMILES")
        split = scaffold_split(smiles, options.fractions)
    return archive.with_split(split)


def _sizes(count: int, fractions: Sequence[float]) -> list[int]:
    try:
        SplitOptions(fractions=tuple(map(float, fractions)))
    except ConfigError as error:
        raise DataError(str(error)) from None
    bounds = np.round(np.cumsum(fractions) * count).astype(int)
    bounds[-1] = count
    return np.diff(bounds, prepend=0).tolist()


def _strata(targets: np.ndarray) -> np.ndarray:
    columns = []
    for column in targets.T:
        values, place = np.unique(column, return_inverse=True)
        if len(values) > _MAX_CLASSES:
            rank = np.argsort(np.argsort(column, kind="stable"), kind="stable")
            place = rank * 10 // len(column)
        columns.append(place)
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
