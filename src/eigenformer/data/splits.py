"""Splits: which graphs are used for training, validation and testing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eigenformer.config import ConfigError, SplitOptions
from eigenformer.config.data import FRACTIONS
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.fields import SPLITS
from eigenformer.nearest import unknown

# Targets with more different values than this are numbers, not classes: their tenths are balanced.
_MAX_CLASSES = 20
_ALIASES = {"valid": "val", "validation": "val", "dev": "val", "training": "train"}


def random_split(count: int, fractions: Sequence[float] = FRACTIONS, seed: int = 0) -> np.ndarray:
    """Assigns graphs to splits at random. ``fractions`` are the sizes of the splits."""
    sizes = _sizes(count, fractions)
    split = np.repeat(np.arange(len(SPLITS), dtype=np.uint8), sizes)
    return np.random.default_rng(seed).permutation(split)


def stratified_split(
    targets: np.ndarray, fractions: Sequence[float] = FRACTIONS, seed: int = 0
) -> np.ndarray:
    """Assigns graphs to splits at random, with the same mix of targets in each split.

    Classes are balanced directly. Numbers are ranked, and tenths of the ranks are balanced.
    Several targets are balanced by their combinations. A missing target is a value of its own.
    """
    _sizes(len(targets), fractions)
    stratum = _strata(np.asarray(targets).reshape(len(targets), -1))
    shuffled = np.random.default_rng(seed).permutation(len(targets))
    order = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    split = np.empty(len(targets), dtype=np.uint8)
    owed = np.zeros(len(SPLITS))
    for graph in order:  # fill the split that lacks most, so that each stratum is divided evenly
        owed += fractions
        part = int(np.argmax(owed))
        owed[part] -= 1
        split[graph] = part
    return split


def scaffold_split(smiles: Sequence[str], fractions: Sequence[float] = FRACTIONS) -> np.ndarray:
    """Assigns molecules to splits by Bemis–Murcko scaffold: the same scaffold, the same split.

    The most frequent scaffolds go to train, and the rare ones to val and test. This is a harder,
    more honest test of how a model performs on new chemistry. The split is deterministic.
    """
    groups = _scaffolds(smiles)
    sizes = _sizes(len(smiles), fractions)
    split = np.full(len(smiles), 2, dtype=np.uint8)
    filled = [0, 0]
    for group in sorted(groups.values(), key=lambda group: (-len(group), group[0])):
        for part in (0, 1):
            # The most frequent scaffold goes to train, even if it exceeds the fraction of train.
            first = part == 0 and not filled[0] and sizes[0] > 0
            if first or filled[part] + len(group) <= sizes[part]:
                split[group] = part
                filled[part] += len(group)
                break
    return split


def read_split(cell: str) -> str:
    """Returns the split named in a cell. Accepts other common names for ``val`` and ``train``."""
    name = cell.strip().lower()
    name = _ALIASES.get(name, name)
    if name not in SPLITS:
        raise DataError(unknown(f"split '{cell}'", name, SPLITS))
    return name


def split_archive(archive: GraphArchive, options: SplitOptions) -> GraphArchive:
    """Returns the archive with the requested split, or with its own split if none is requested."""
    if options.split_by in (None, "column"):
        return archive
    if options.folds is not None:
        return _split_fold(archive, options, options.folds)
    if options.split_by == "random":
        split = random_split(len(archive), options.fractions, options.split_seed)
    elif options.split_by == "stratified":
        split = stratified_split(_graph_targets(archive), options.fractions, options.split_seed)
    else:
        split = scaffold_split(_smiles_of(archive), options.fractions)
    return archive.with_split(split)


def _split_fold(archive: GraphArchive, options: SplitOptions, folds: int) -> GraphArchive:
    """Returns the archive with one fold as test, and the other folds split into train and val."""
    if folds > len(archive):
        raise DataError(f"folds: {folds} for {len(archive)} graphs")
    val = options.fractions[1] / max(options.fractions[0] + options.fractions[1], 1e-12)
    random = np.random.default_rng(options.split_seed)
    fold = np.empty(len(archive), dtype=np.int64)
    split = np.full(len(archive), SPLITS.index("test"), dtype=np.uint8)
    if options.split_by == "scaffold":
        groups = list(_scaffolds(_smiles_of(archive)).values())
        # The largest first, each to the smallest fold; the seed decides between equal ones.
        order = sorted(random.permutation(len(groups)), key=lambda place: -len(groups[place]))
        counts = np.zeros(folds, dtype=np.int64)
        for place in order:
            smallest = int(np.argmin(counts))
            fold[groups[place]] = smallest
            counts[smallest] += len(groups[place])
        split[fold != options.fold] = SPLITS.index("train")
        missing = val * (fold != options.fold).sum()
        for group in (groups[place] for place in reversed(order)):  # rare scaffolds to val
            if missing >= 0.5 and fold[group[0]] != options.fold:
                split[group] = SPLITS.index("val")
                missing -= len(group)
        return archive.with_split(split)
    shuffled = random.permutation(len(archive))
    if options.split_by == "stratified":
        stratum = _strata(_graph_targets(archive))
        shuffled = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    fold[shuffled] = np.arange(len(archive)) % folds
    rest = np.flatnonzero(fold != options.fold)
    inner = options.replace(folds=None, fold=0, fractions=(1 - val, val, 0.0))
    split[rest] = split_archive(archive.subset(rest), inner).split
    return archive.with_split(split)


def _graph_targets(archive: GraphArchive) -> np.ndarray:
    field = archive.fields.get("y")
    if field is None or field.level != "graph":
        raise DataError("split_by: 'stratified' needs graph-level targets")
    return np.asarray(field.values).reshape(len(field.values), -1)


def _smiles_of(archive: GraphArchive) -> Sequence[str]:
    from eigenformer.data.molecules import FEATURIZERS

    texts = archive.fields.get("smiles")
    if texts is None and archive.meta.get("featurizer") not in FEATURIZERS:
        raise DataError("split_by: 'scaffold' needs molecules")
    smiles = archive.names if texts is None else texts.values.tolist()
    if smiles is None:
        raise DataError("split_by: 'scaffold' needs the molecules' SMILES")
    return smiles


def _scaffolds(smiles: Sequence[str]) -> dict[str, list[int]]:
    """Returns the places of the molecules with each Bemis–Murcko scaffold."""
    from eigenformer.data.molecules import scaffold

    groups: dict[str, list[int]] = {}
    for index, text in enumerate(smiles):
        groups.setdefault(scaffold(text), []).append(index)
    return groups


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
        known = column == column  # NaN, a missing target, is not equal to itself
        if len(values[values == values]) > _MAX_CLASSES:
            order = np.argsort(np.argsort(column[known], kind="stable"), kind="stable")
            place = np.full(len(column), 10)
            place[known] = order * 10 // known.sum()
        columns.append(place)
    return np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
