"""ZINC-12k: molecules with 28 atom words and 3 bond types, and one target per molecule."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.building import Builder
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import SPLITS, Field
from eigenformer.data.packed import open_member, read_npz
from eigenformer.data.workspace import RawFile
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter
from eigenformer.targets import NumberTarget

# fmt: off
ATOM_WORDS = (
    "C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -",
    "S -", "I", "P", "O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +",
    "C H1 -", "P H1 +",
)
# fmt: on
BOND_WORDS = ("NONE", "SINGLE", "DOUBLE", "TRIPLE")

KNOWN_ATOMS = 21
"""Words 0 to 20 occur in the 12k subset. A model knows these and one more, "unknown"."""

_INDEX_URL = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules/"
)
# Checksums of the files at commit b6c4077; molecules.zip has no published checksum.
_INDEX_SHA256 = {
    "train": "575d6acd72ac207a95947e2bdd16411ef6fc3faa88c2f55a2c496ea43022a6d8",
    "val": "fe48c38157f0d38e7fc441903a143392eda080511a79e8fb8f60f5c1b0a9c164",
    "test": "6aa50d98976044fb36089afef5b4c991b429ca1c8e009d33a0319e42a2d9b525",
}
LAYOUTS: tuple[tuple[RawFile, ...], ...] = (
    (RawFile("zinc12k.npz"),),
    (
        RawFile("molecules.zip", "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"),
        *(
            RawFile(f"{split}.index", f"{_INDEX_URL}{split}.index", _INDEX_SHA256[split])
            for split in SPLITS
        ),
    ),
)
"""The files to read: a packed local copy, or the official files."""


def builder(name: str) -> Builder:
    """Returns how the benchmark is built."""
    return Builder(LAYOUTS, build)


def build(files: list[Path], reporter: Reporter, limits: Limits = DEFAULT_LIMITS) -> GraphArchive:
    """Raw files → archive: ``x`` [n, 1], ``edge_attr`` [m] in 1..3, ``y`` [1]."""
    packed = files[0].suffix == ".npz"
    arrays = _packed(files[0], limits) if packed else _official(files, limits)
    atoms, bonds = arrays["atom_type"], arrays["bond"].astype(np.int64)
    node_offsets = arrays["node_offset"].astype(np.int64)
    counts = np.diff(arrays["bond_offset"].astype(np.int64))
    if counts.min(initial=0) < 0 or counts.sum() != len(bonds):
        reason = "bond_offset does not add up to the number of bonds"
        raise DataError(Problem(str(files[0]), reason))
    edge_index, order = both_directions(bonds[:, :2].T, counts, node_offsets)
    return GraphArchive(
        node_offsets=node_offsets,
        edge_offsets=np.concatenate([[0], np.cumsum(2 * counts)]),
        edge_index=edge_index,
        fields={
            "x": Field("node", model_types(atoms)[:, None], np.dtype(np.int64)),
            "edge_attr": Field("edge", bonds[order % len(bonds), 2], np.dtype(np.int64)),
            "y": Field("graph", arrays["y"].astype(np.float32), np.dtype(np.float32)),
        },
        split=arrays["split"].astype(np.uint8),
        target=NumberTarget(names=("constrained solubility",)),
        meta={"featurizer": "zinc", "vocabulary": {"atom": ATOM_WORDS, "bond": BOND_WORDS}},
    )


def model_types(words: np.ndarray) -> np.ndarray:
    """Converts atom words to the model's types. Words outside the 12k subset are "unknown"."""
    return np.minimum(words.astype(np.int64), KNOWN_ATOMS)


def both_directions(
    bonds: np.ndarray, counts: np.ndarray, node_offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns each bond in both directions, sorted row-major within its graph, and its origin.

    ``bonds`` is ``[2, bonds]``, with ``counts`` bonds per graph. The second result is the index of
    each edge in the given bonds followed by their reverses.
    """
    graph = np.tile(np.repeat(np.arange(len(counts)), counts), 2)
    directed = np.concatenate([bonds, bonds[::-1]], axis=1)
    order = np.lexsort((directed[1], directed[0] + node_offsets[graph]))
    return directed[:, order], order


def _packed(file: Path, limits: Limits) -> dict[str, np.ndarray]:
    loaded = read_npz(file, limits)
    vocabulary = file.with_name("vocab.json")
    if vocabulary.exists():
        words = json.loads(vocabulary.read_text("utf-8"))
        if tuple(words["atom"].values()) != ATOM_WORDS:
            raise DataError(Problem(str(vocabulary), "its atom words differ from those of ZINC"))
    return loaded


def _official(files: list[Path], limits: Limits) -> dict[str, np.ndarray]:
    """Reads the 12k subset of the official 250k: dense bond matrices, chosen by the index files."""
    from eigenformer.data.unpickle import load_arrays

    atoms, bonds, targets, sizes = [], [], [], []
    with zipfile.ZipFile(files[0]) as archive:
        for split, index in zip(SPLITS, files[1:], strict=True):
            with open_member(archive, f"molecules/{split}.pickle", limits) as stream:
                molecules = load_arrays(stream, f"{files[0]}/{split}.pickle", limits)
            chosen = [int(number) for number in index.read_text().strip().split(",")]
            sizes.append(len(chosen))
            for number in chosen:
                molecule: dict[str, Any] = molecules[number]
                matrix = np.triu(np.asarray(molecule["bond_type"]))
                row, column = matrix.nonzero()
                bonds.append(np.stack([row, column, matrix[row, column]], axis=1))
                atoms.append(np.asarray(molecule["atom_type"]).reshape(-1))
                targets.append(float(molecule["logP_SA_cycle_normalized"]))
    return {
        "atom_type": np.concatenate(atoms),
        "bond": np.concatenate(bonds),
        "node_offset": np.cumsum([0, *map(len, atoms)]),
        "bond_offset": np.cumsum([0, *map(len, bonds)]),
        "y": np.array(targets, dtype=np.float32),
        "split": np.repeat(np.arange(len(sizes)), sizes),
    }
