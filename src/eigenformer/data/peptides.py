"""Peptides-func and Peptides-struct (LRGB): 15,535 peptides as molecules.

Licence of the data: CC BY-NC 4.0.
"""

from __future__ import annotations

import zipfile
from functools import partial
from pathlib import Path

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.benchmarking_gnns import packed_structure
from eigenformer.data.building import Builder
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.featurizing import featurize_all
from eigenformer.data.fields import NO_SPLIT, SPLITS, Field, number_splits
from eigenformer.data.molecules import MoleculeError, molecule_fields
from eigenformer.data.packed import open_member
from eigenformer.data.tables import Table, read_table
from eigenformer.data.workspace import RawFile
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter
from eigenformer.targets import LabelTarget, NumberTarget

FUNCTIONS = tuple(f"function {number}" for number in range(10))
STRUCTURES = (
    *("Inertia_mass_a", "Inertia_mass_b", "Inertia_mass_c"),
    *("Inertia_valence_a", "Inertia_valence_b", "Inertia_valence_c"),
    *("length_a", "length_b", "length_c", "Spherocity", "Plane_best_fit"),
)
_TARGETS = {
    "peptides-func": LabelTarget("graph", len(FUNCTIONS), FUNCTIONS, kind="multilabel"),
    "peptides-struct": NumberTarget("graph", len(STRUCTURES), STRUCTURES),
}
_ADDRESS = "https://www.dropbox.com/s"
_FUNC_TABLE = "peptides_func.csv.gz"
_STRUCT_TABLE = "peptide_structure_dataset.csv.gz"
_STRUCT_SPLIT = "splits_random_stratified_peptide_structure.pickle"

LAYOUTS: dict[str, tuple[tuple[RawFile, ...], ...]] = {
    "peptides-func": (
        (RawFile(_FUNC_TABLE),),
        (RawFile("peptidesfunc.zip", f"{_ADDRESS}/ycsq37q8sxs1ou8/peptidesfunc.zip?dl=1"),),
    ),
    # Both have the same graphs and split, so the split can be read from the table of the other.
    "peptides-struct": (
        (RawFile(_STRUCT_TABLE), RawFile(_STRUCT_SPLIT)),
        (RawFile(_STRUCT_TABLE), RawFile(f"../peptides-func/{_FUNC_TABLE}")),
        (RawFile("peptidesstruct.zip", f"{_ADDRESS}/zgv4z8fcpmknhs8/peptidesstruct.zip?dl=1"),),
    ),
}
"""The files to read: tables of SMILES in a local copy, or the official graphs."""


def builder(name: str) -> Builder:
    """Returns how a benchmark is built."""
    return Builder(LAYOUTS[name], partial(build, name))


def build(
    name: str, files: list[Path], reporter: Reporter, limits: Limits = DEFAULT_LIMITS
) -> GraphArchive:
    """Raw files → archive: ``x`` [n, 9], ``edge_attr`` [m, 3], ``y`` [1, 10] or [1, 11]."""
    if files[0].suffix == ".zip":
        return _official(name, files[0], limits)
    table = read_table(files[0], limits=limits)
    if table.ragged:
        raise DataError([row.problem for row in table.ragged])
    if name == "peptides-func":
        targets = np.array([[float(c) for c in label] for label in table.column("labels")])
        split = number_splits(table.column("split"))
    else:
        targets = standardized(_numbers(table))
        split = _struct_split(files[1], len(table), limits)
    smiles = table.column("smiles")
    graphs = []
    found = featurize_all(smiles, "ogb", reporter, limits)
    for graph, line in zip(found, table.lines, strict=True):
        if isinstance(graph, MoleculeError):
            raise DataError(Problem(str(files[0]), str(graph), line))
        graphs.append(graph)
    packed = molecule_fields(graphs)
    packed["fields"]["y"] = Field("graph", targets.astype(np.float32), np.dtype(np.float32))
    return GraphArchive(
        **packed, split=split, names=smiles, target=_TARGETS[name], meta={"featurizer": "ogb"}
    )


def standardized(targets: np.ndarray) -> np.ndarray:
    """Scales each target to zero mean and unit (sample) deviation over the whole set."""
    return (targets - targets.mean(0)) / targets.std(0, ddof=1)


def _numbers(table: Table) -> np.ndarray:
    columns = [table.column(name) for name in STRUCTURES]
    try:
        return np.array([[float(cell) for cell in column] for column in columns]).T
    except ValueError as error:
        raise DataError(Problem(table.file, str(error))) from None


def _struct_split(file: Path, rows: int, limits: Limits) -> np.ndarray:
    if file.suffix == ".pickle":
        from eigenformer.data.unpickle import load_arrays_from

        parts = load_arrays_from(file, limits)
        split = np.full(rows, NO_SPLIT, dtype=np.uint8)
        for place, name in enumerate(SPLITS):
            split[np.asarray(parts[name], dtype=np.int64)] = place
    else:
        split = number_splits(read_table(file, limits=limits).column("split"))
    if len(split) != rows:
        raise DataError(Problem(str(file), f"splits {len(split)} rows, expected {rows}"))
    return split


def _official(name: str, file: Path, limits: Limits) -> GraphArchive:
    """Reads the official graphs: one list of (x, edge_attr, edge_index, y) per split."""
    from eigenformer.data.unpickle import load_arrays

    graphs: list[dict[str, np.ndarray]] = []
    sizes = []
    with zipfile.ZipFile(file) as archive:
        for split in SPLITS:
            member = f"{file.stem}/{split}.pt"
            with open_member(archive, member, limits) as stream:
                part = load_arrays(stream, f"{file}/{member}", limits)
            names = ("x", "edge_attr", "edge_index", "y")
            graphs += [dict(zip(names, map(np.asarray, graph), strict=True)) for graph in part]
            sizes.append(len(part))
    long, single = np.dtype(np.int64), np.dtype(np.float32)
    fields = {
        "x": Field("node", np.concatenate([graph["x"] for graph in graphs]), long),
        "edge_attr": Field("edge", np.concatenate([graph["edge_attr"] for graph in graphs]), long),
        "y": Field("graph", np.concatenate([g["y"] for g in graphs]).astype(single), single),
    }
    split_of = np.repeat(np.arange(len(SPLITS), dtype=np.uint8), sizes)
    return GraphArchive(
        **packed_structure(graphs),
        fields=fields,
        split=split_of,
        target=_TARGETS[name],
        meta={"featurizer": "ogb"},
    )
