"""Chooses encoders that fit the features of graphs, and checks whether other graphs fit them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from eigenformer.config import (
    CategoricalSpec,
    EmbeddingSpec,
    EncoderSpec,
    InputFormat,
    LinearSpec,
    OnesSpec,
)
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.fields import ROW_WEIGHT
from eigenformer.data.molecules import featurizer

MOST_CATEGORIES = 10_000
"""The maximum number of categories. With more, most of them would hardly ever be seen."""


def unseen_atoms(expected: InputFormat, x: np.ndarray | Tensor | None) -> tuple[int, ...]:
    """Returns the atoms whose type is missing from the model's training data."""
    if expected.unknown_type is None or x is None:
        return ()
    return tuple(np.flatnonzero(np.asarray(x).reshape(-1) == expected.unknown_type).tolist())


def encoders(archive: GraphArchive) -> tuple[EncoderSpec, EncoderSpec | None]:
    """Returns the node encoder and the edge encoder that fit an archive's features."""
    name = archive.meta.get("featurizer")
    if name in ("molecule", "ogb"):
        atoms, bonds = featurizer(name).atom_sizes, featurizer(name).bond_sizes
        return CategoricalSpec(atoms), CategoricalSpec(bonds)
    if name == "zinc":
        (atom_types,), (bond_types,) = featurizer(name).atom_sizes, featurizer(name).bond_sizes
        return EmbeddingSpec(atom_types), EmbeddingSpec(bond_types, no_edge_type=0)
    nodes = _encoder(archive, "x") if "x" in archive.fields else OnesSpec()
    return nodes, _encoder(archive, "edge_attr") if "edge_attr" in archive.fields else None


def num_descriptors(archive: GraphArchive) -> int:
    """Returns the number of descriptors per graph; 0 if the archive has none."""
    found = archive.fields.get("descriptors")
    if found is None:
        return 0
    if found.level != "graph" or found.values.ndim != 2:
        raise DataError("'descriptors': expected one row of numbers per graph")
    return found.values.shape[1]


# Of whole graphs, these are used.
_OF_GRAPHS = ("y", "descriptors", ROW_WEIGHT)


def unused_fields(archive: GraphArchive) -> str:
    """Returns which attributes no model sees, and what to do; empty if there are none."""
    parts = []
    for level, used in (("node", "x"), ("edge", "edge_attr")):
        left = [
            name
            for name, field in archive.fields.items()
            if field.level == level and name not in (used, "y") and not field.is_text
        ]
        if left:
            names = ", ".join(f"'{name}'" for name in left)
            parts.append(f"{level} features are read from '{used}' only, not from {names}")
    of_graphs = [
        f"'{name}'"
        for name, field in archive.fields.items()
        if field.level == "graph" and name not in _OF_GRAPHS and not field.is_text
    ]
    if parts:
        parts.append("concatenate them to use them")
    if of_graphs:
        parts.append(f"attributes of whole graphs are not used: {', '.join(of_graphs)}")
    return "; ".join(parts)


def check_columns(expected: InputFormat, archive: GraphArchive, source: str | Path) -> None:
    """Raises an error if graphs have other features than the model was trained on.

    Features without names, such as those of PyG graphs, are not checked.
    """
    columns = archive.meta.get("columns", {})
    for owners, attribute, trained in (
        ("nodes", "x", expected.node_features),
        ("edges", "edge_attr", expected.edge_features),
    ):
        there = tuple(columns.get(attribute, trained))
        if trained and there != trained:
            missing = ", ".join(name for name in trained if name not in there) or "none"
            new = ", ".join(name for name in there if name not in trained) or "none"
            raise DataError(
                f"{source}: the features of {owners} differ from those of the training data "
                f"({', '.join(trained)}). Missing: {missing}; unknown: {new}. Rename, add or "
                f"remove columns"
            )


def _encoder(archive: GraphArchive, attribute: str) -> EncoderSpec:
    """Returns an encoder: whole numbers from 0 are categories, all others are quantities."""
    field = archive.fields[attribute]
    values = field.values.reshape(len(field.values), -1)
    if field.dtype.kind not in "iu" or not len(values) or values.min() < 0:
        return LinearSpec(values.shape[1])
    sizes = tuple(int(largest) + 1 for largest in values.max(0))
    if max(sizes) > MOST_CATEGORIES:
        column = sizes.index(max(sizes))
        names = archive.meta.get("columns", {}).get(attribute)
        shown = f"column {column} of {attribute}" if names is None else f"column '{names[column]}'"
        raise DataError(
            f"{field.level} features, {shown}: whole numbers are treated as categories, each "
            f"with its own vector, but this column goes up to {max(sizes) - 1} (at most "
            f"{MOST_CATEGORIES} categories). Write quantities as floating-point numbers (5.0 "
            f"instead of 5), and number categories from 0 without gaps"
        )
    return CategoricalSpec(sizes)
