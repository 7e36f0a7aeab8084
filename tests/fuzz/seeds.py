"""The valid inputs that are mutated, made once in a folder."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch_geometric.data import Data

from eigenformer.cli import main
from eigenformer.data.archive import GraphArchive
from eigenformer.targets import NumberTarget

MOLECULES = [["smiles", "sol", "kind"]] + [
    ["C" * n + end, str(n + len(end) / 7), end or "alkane"]
    for n in range(1, 6)
    for end in ("", "O", "N", "Cl")
]
DESCRIBED = [[*row, str(number / 3) if number else "mass"] for number, row in enumerate(MOLECULES)]
TABLES = {
    "graphs": [["graph", "y"], ["a", "1.5"], ["b", "2.5"], ["c", "0.5"]],
    "nodes": [
        ["graph", "node", "age"],
        *([g, n, str(i)] for g in "abc" for i, n in enumerate("uvw")),
    ],
    "edges": [["graph", "source", "target", "w"], *([g, "u", "v", "0.5"] for g in "abc")],
}
SETTINGS = {
    "data": {"dataset": "m.csv", "targets": ["sol"]},
    "preset": "zinc",
    "model": {"layers": 1, "hidden_dim": 8, "heads": 4, "phi_width": 2},
    "training": {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "warmup_epochs": 0.5},
    "seed": 0,
}
SMALL = (
    "--epochs 1 --batch-size 8 --threads 1 "
    "--model.layers 1 --model.hidden_dim 8 --model.phi_width 2"
)


def csv_text(rows: list[list[str]], separator: str = ",") -> str:
    """The rows as text, quoted as little as possible, so that mutations break them."""
    return "\n".join(separator.join(row) for row in rows) + "\n"


def graphs() -> list[Data]:
    """Two small graphs."""
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return [
        Data(
            x=torch.arange(3).view(3, 1), edge_index=edges, edge_attr=torch.ones(4), y=torch.ones(1)
        ),
        Data(
            x=torch.zeros(3, 1).long(), edge_index=edges, edge_attr=torch.ones(4), y=torch.zeros(1)
        ),
    ]


def pickles() -> list[bytes]:
    """Pickles of plain values, arrays and tensors, by all protocols."""
    value = {
        "a": [1, 2.5, None, "x", True, b"y"],
        "b": np.arange(6.0).reshape(2, 3),
        "c": (1, [2, {}]),
    }
    found = [pickle.dumps(value, protocol) for protocol in range(5)]
    found.append(pickle.dumps([{"atom_type": torch.arange(3), "n": np.int64(3)}], 2))
    return found


def torch_files() -> list[bytes]:
    """``.pt`` files in both of PyTorch's formats."""
    found = []
    for content in (graphs(), graphs()[0], {"w": torch.ones(3, 2).t()}):
        for new in (True, False):
            stream = io.BytesIO()
            torch.save(content, stream, _use_new_zipfile_serialization=new)
            found.append(stream.getvalue())
    return found


def npz() -> bytes:
    """A tiny ZINC."""
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        atom_type=np.array([0, 1, 2, 0, 1]),
        bond=np.array([[0, 1, 1], [1, 2, 2], [0, 1, 1]]),
        node_offset=np.array([0, 3, 5]),
        bond_offset=np.array([0, 2, 3]),
        y=np.array([0.5, 1.5], dtype=np.float32),
        split=np.array([0, 1]),
    )
    return stream.getvalue()


@dataclass(frozen=True)
class Official:
    """The official zip file of a benchmark.

    Args:
        file: Its name.
        members: The names of its members.
        value: What one member holds; arrays are lists.
        pickled: Whether it is an ordinary pickle, not a ``.pt`` file.
    """

    file: str
    members: tuple[str, ...]
    value: Any
    pickled: bool = False

    def frozen(self, value: Any) -> Any:
        """The value with tensors in place of lists of numbers."""
        if isinstance(value, dict):
            return {key: self.frozen(inner) for key, inner in value.items()}
        if not isinstance(value, list):
            return value
        try:
            return torch.tensor(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return [self.frozen(inner) for inner in value]

    def packed(self, value: Any) -> bytes:
        """The bytes of a member."""
        if self.pickled:
            return pickle.dumps(value)
        stream = io.BytesIO()
        torch.save(value, stream)
        return stream.getvalue()


_EDGES = [[0, 1], [1, 0]]
_PICTURE = {"x": [[0.5], [1.0]], "pos": [[0.1, 0.2], [0.3, 0.4]], "edge_index": _EDGES}
_SBM = {"x": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "edge_index": _EDGES, "y": [0, 1]}
_MOLECULE = {"num_atom": 2, "atom_type": [0, 1], "bond_type": [[0, 1], [1, 0]]}
_PEPTIDE = [[[1] * 9, [0] * 9], [[0] * 3, [1] * 3], _EDGES, [[0.5] * 10]]
OFFICIAL = {
    "mnist": Official(
        *("MNIST_v2.zip", ("MNIST_v2.pt",)),
        [[{**_PICTURE, "edge_attr": [0.5, 0.5], "y": [3]}]] * 3,
    ),
    "pattern": Official("PATTERN_v2.zip", ("PATTERN_v2.pt",), [[_SBM], [_SBM], [_SBM]]),
    "zinc": Official(
        "molecules.zip",
        tuple(f"molecules/{split}.pickle" for split in ("train", "val", "test")),
        [{**_MOLECULE, "logP_SA_cycle_normalized": [0.5]}] * 2,
        pickled=True,
    ),
    "peptides-func": Official(
        "peptidesfunc.zip",
        tuple(f"peptidesfunc/{split}.pt" for split in ("train", "val", "test")),
        [_PEPTIDE, _PEPTIDE],
    ),
}


def parquet() -> bytes:
    """The molecules as a Parquet file, with a date, a list and a missing cell."""
    import pyarrow as arrow
    import pyarrow.parquet

    columns: dict[str, Any] = {
        name: [row[i] for row in MOLECULES[1:]] for i, name in enumerate(MOLECULES[0])
    }
    columns["when"] = arrow.array([10**4] * 20, arrow.date32())
    columns["list"] = [[1, 2], None] * 10
    stream = io.BytesIO()
    pyarrow.parquet.write_table(arrow.table(columns), stream)
    return stream.getvalue()


def members(data: bytes) -> dict[str, bytes]:
    """The members of a zip file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def stored(files: dict[str, bytes]) -> bytes:
    """A zip file of these members, not compressed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def prepare(folder: Path) -> None:
    """Writes the seeds that are files: a table, three tables, an archive, a run."""
    (folder / "m.csv").write_text(csv_text(MOLECULES))
    (folder / "few.csv").write_text(csv_text(MOLECULES[:4]))
    (folder / "tables").mkdir(exist_ok=True)
    for name, rows in TABLES.items():
        (folder / "tables" / f"{name}.csv").write_text(csv_text(rows))
    archive = GraphArchive.from_data_list(
        graphs(), split=["train", "val"], names=["a", "b"], target=NumberTarget(names=("y",))
    )
    archive.save(folder / "archive")
    command = (
        f"train {folder}/m.csv --target sol {SMALL} --out {folder}/run --cache-dir {folder}/cache"
    )
    (folder / "described.csv").write_text(csv_text(DESCRIBED))
    ensemble = (
        f"train {folder}/described.csv --target sol --descriptors mass morgan --ensemble 2 {SMALL} "
        f"--out {folder}/together --cache-dir {folder}/cache"
    )
    for name, words in {"run": command, "together": ensemble}.items():
        if not (folder / name).exists() and main(words.split()) != 0:
            raise RuntimeError(f"'{name}', which is mutated, cannot be made")


def run_files(folder: Path) -> dict[str, bytes]:
    """The files of the run by name."""
    return {file.name: file.read_bytes() for file in (folder / "run").iterdir() if file.is_file()}


def files_below(folder: Path) -> dict[str, bytes]:
    """The files of a model by path: its own, and those of the members of an ensemble."""
    names = ("*/model*", "*/config.yaml", "*/summary.json", "*.json")
    found = sorted(file for name in names for file in folder.glob(name) if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


def settings_text() -> str:
    """The settings as YAML."""
    return yaml.safe_dump(SETTINGS)


def as_json(value: Any) -> bytes:
    """A value as JSON, however deep."""
    return json.dumps(value).encode()
