"""The cases: what is written into an empty folder, the command, and what it has to say.

``run`` in a folder is a trained model, ``m.csv`` the molecules it was trained on. Add a case for
every input that breaks something.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from eigenformer.data.archive import GraphArchive
from eigenformer.data.store import MANIFEST, _digest
from eigenformer.targets import NumberTarget
from tests.data import exploits
from tests.fuzz import seeds

FILES = Path(__file__).parent / "files"


@dataclass(frozen=True)
class Case:
    """One input and its answer.

    Args:
        write: Writes the input into a folder.
        command: The command, in that folder.
        says: A part of what is printed.
        code: The exit code.
        check: Looks into the folder afterwards, and returns whether all is well.
    """

    write: Callable[[Path], object]
    command: str
    says: str
    code: int = 2
    check: Callable[[Path], object] = lambda folder: True


def nothing(folder: Path) -> None:
    """The command is the input."""


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content, "utf-8")


def edited(name: str, **changes: Any) -> Callable[[Path], object]:
    """A JSON file of the run with other values by dotted name; ``...`` removes one."""

    def write(folder: Path) -> None:
        file = folder / "run" / name
        content = json.loads(file.read_text("utf-8"))
        for path, value in changes.items():
            *parents, last = path.split("__")
            inner = content
            for parent in parents:
                inner = inner[parent]
            if value is ...:
                del inner[last]
            else:
                inner[last] = value
        file.write_text(json.dumps(content), "utf-8")

    return write


def forged(**changes: Any) -> Callable[[Path], object]:
    """An archive whose manifest says something else, with the right checksum of itself."""

    def write(folder: Path) -> None:
        edges = torch.tensor([[0, 1], [1, 0]])
        graphs = [
            Data(x=torch.ones(2, 1), edge_index=edges, y=torch.tensor([i / 2])) for i in range(9)
        ]
        target = NumberTarget(names=("y",))
        GraphArchive.from_data_list(graphs, target=target).save(folder / "archive")
        file = folder / "archive" / MANIFEST
        manifest = json.loads(file.read_text("utf-8"))
        del manifest["sha256"]
        for path, value in changes.items():
            *parents, last = path.split("__")
            inner = manifest
            for parent in parents:
                inner = inner[parent]
            inner[last] = value
        file.write_text(json.dumps({**manifest, "sha256": _digest(manifest)}), "utf-8")

    return write


def gz_bomb(folder: Path) -> None:
    part = gzip.compress(b"C,1\n" * (1 << 23), 1)  # 32 MiB; several of them are one file
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"smiles,y\n") + 20 * part)


def parquet_bomb(folder: Path) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    schema = arrow.schema([("smiles", arrow.string()), ("y", arrow.int8())])
    part = arrow.table({"smiles": ["C"] * 10**6, "y": np.ones(10**6, np.int8)}, schema)
    with parquet.ParquetWriter(folder / "bomb.parquet", schema) as writer:
        for _ in range(11):
            writer.write_table(part)


def late_date(folder: Path) -> None:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    dates = arrow.array([10**8] * 3, arrow.date32())
    parquet.write_table(arrow.table({"smiles": ["C"] * 3, "y": dates}), folder / "late.parquet")


def npz_bomb(folder: Path) -> None:
    (folder / "raw" / "zinc").mkdir(parents=True)
    with zipfile.ZipFile(folder / "raw/zinc/zinc12k.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", b"\0" * (1 << 20))
        archive.getinfo("y.npy").file_size = 3 << 30  # what a bomb of 3 GiB would declare


def copied(name: str) -> Callable[[Path], object]:
    """A file of the corpus as it is."""
    return lambda folder: shutil.copy(FILES / name, folder)


def zinc(**changes: Any) -> Callable[[Path], object]:
    """Two molecules in place of ZINC, with other arrays."""

    def write(folder: Path) -> None:
        (folder / "raw" / "zinc").mkdir(parents=True)
        with np.load(io.BytesIO(seeds.npz())) as arrays:
            np.savez(folder / "raw/zinc/zinc12k.npz", **{**arrays, **changes})

    return write


def lying_npz(folder: Path) -> None:
    (folder / "raw" / "zinc").mkdir(parents=True)
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    np.lib.format.write_array_header_1_0(header, description)
    with zipfile.ZipFile(folder / "raw/zinc/zinc12k.npz", "w") as archive:
        archive.writestr("y.npy", header.getvalue() + b"\0" * 80)


def pt_folder(**files: bytes) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        (folder / "graphs").mkdir()
        for name, data in files.items():
            (folder / "graphs" / f"{name}.pt").write_bytes(data)

    return write


def pt(value: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def graph(**fields: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.ones(2, 1), **fields)


def cluster_pickle(folder: Path) -> None:
    (folder / "graphs").mkdir()
    (folder / "graphs" / "a.pt").write_bytes(exploits.saved([exploits.cluster_data(folder)]))


def tables(nodes: str = "graph,node,age\na,u,1\n", edges: str = "graph,source,target\n") -> Any:
    def write(folder: Path) -> None:
        (folder / "tables").mkdir()
        for name, content in {"graphs": "graph,y\na,1.5\n", "nodes": nodes, "edges": edges}.items():
            (folder / "tables" / f"{name}.csv").write_text(content, "utf-8")

    return write


LAUGHS = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30)
)
WIDE = ",".join(["smiles", *(f"c{n}" for n in range(100_000))])
TRAIN, PREDICT = "train m.csv --target sol --out new", "predict run m.csv --out new.csv"
GRAPHS, ZINC = "data prepare graphs", "data prepare zinc --raw-dir raw"

CASES = {
    # Files that run code.
    "pt with ClusterData": Case(cluster_pickle, GRAPHS, "a.pt: not a file of PyG Data"),
    "pt with a system call": Case(
        pt_folder(a=b"cos\nsystem\n(S'true'\ntR."), GRAPHS, "a.pt: not a file of PyG Data"
    ),
    "pickle with objects": Case(
        pt_folder(a=pickle.dumps(np.array([{}], dtype=object))), GRAPHS, "not a file of PyG Data"
    ),
    **{
        f"pickle: {name}": Case(pt_folder(a=data), GRAPHS, "a.pt: ")
        for name, data in exploits.pickles().items()
    },
    # Limits on files.
    "gz bomb": Case(gz_bomb, "data prepare bomb.csv.gz", "--limits unpacked_bytes=NUMBER"),
    "parquet bomb": Case(parquet_bomb, "data prepare bomb.parquet", "--limits cells=NUMBER"),
    "npz bomb": Case(npz_bomb, ZINC, "--limits unpacked_bytes=NUMBER"),
    "npz header that lies": Case(lying_npz, ZINC, "80 bytes, but the shape is"),
    "100,000 columns": Case(
        text("w.csv", f"{WIDE}\n"), "data prepare w.csv", "columns: 100,001 exceeds"
    ),
    "100,000 columns, raised": Case(
        text("w.csv", f"{WIDE}\nC{',1' * 100_000}\n"),
        "data prepare w.csv --no-spectra --limits columns=200k",
        "graphs      1",
        0,
    ),
    "cell of 2 MB": Case(
        text("m.csv", "smiles,y\n" + "C" * 2_000_000 + ",1\n"),
        "data prepare m.csv",
        "cell_length=NUMBER",
    ),
    "SMILES of 900 kB": Case(
        text("m.csv", "smiles,y\n" + "C" * 900_000 + ",1\n"),
        "data prepare m.csv",
        "smiles_length=NUMBER",
    ),
    "20,000 atoms": Case(
        text("m.csv", "smiles,y\n" + "C" * 20_000 + ",1\n"),
        "data prepare m.csv",
        "--limits atoms=NUMBER",
    ),
    "a large molecule keeps its row": Case(
        text("m.csv", "smiles\nCCO\n" + "C" * 20_000 + "\n"), PREDICT, "1 of 2 rows predicted", 0
    ),
    "lines without cells": Case(
        text("m.csv", "smiles,y\n" + "\n" * 100_000),
        "data prepare m.csv --limits cells=90k",
        "cells",
    ),
    "expanded tensor": Case(
        pt_folder(a=pt(graph(y=torch.zeros(1).expand(10**9)))), GRAPHS, "describes more than"
    ),
    # Limits on settings.
    **{
        f"{name} {value}": Case(nothing, f"{TRAIN} --{name} {value}", f"--limits {limit}=NUMBER")
        for name, value, limit in (
            ("model.layers", 10**6, "layers"),
            ("model.hidden_dim", 8 * 10**8, "hidden_dim"),
            ("model.phi_width", 10**8, "phi_width"),
            ("model.phi_depth", 40, "phi_depth"),
            ("model.ffn_width", 10**9, "ffn_width"),
            ("model.head_layers", 10**6, "head_layers"),
            ("model.node_potentials", 10**9, "node_potentials"),
            ("devices", 10**6, "devices"),
            ("machines", 10**9, "machines"),
            ("threads", 10**6, "threads"),
        )
    },
    "parameters": Case(
        nothing,
        f"{TRAIN} --model.layers 200 --model.hidden_dim 16000",
        "--limits parameters=NUMBER",
    ),
    "threads to predict": Case(nothing, f"{PREDICT} --threads 1000000", "--limits threads=NUMBER"),
    "workers": Case(nothing, "data prepare m.csv --workers 1000000", "--limits workers=NUMBER"),
    "unknown limit": Case(nothing, f"{PREDICT} --limits atom=3", "the nearest is 'atoms'"),
    "limit without a number": Case(nothing, f"{PREDICT} --limits atoms=x", "expected atoms=NUMBER"),
    "phi_gain 1e300": Case(
        nothing, f"{TRAIN} --model.phi_gain 1e300", "phi_gain: must be positive and at most"
    ),
    "YAML aliases": Case(
        text("c.yaml", LAUGHS), "train --config c.yaml", "its aliases repeat more than"
    ),
    "YAML merges": Case(
        text("c.yaml", MERGES), "train --config c.yaml", "its aliases repeat more than"
    ),
    "YAML depth": Case(
        text("c.yaml", "a: " + "[" * 50_000), "train --config c.yaml", "nested more than 100"
    ),
    "YAML itself": Case(
        text("c.yaml", "a: &a [*a]"), "train --config c.yaml", "a value contains itself"
    ),
    "YAML length": Case(
        text("c.yaml", "a: 1\n" * 10**6), "train --config c.yaml", "at most 200000 are read"
    ),
    "YAML date": Case(
        text("c.yaml", "seed: 2001-13-45"), "train --config c.yaml", "cannot be read as YAML"
    ),
    "YAML digits": Case(
        text("c.yaml", f"seed: {'9' * 9000}"), "train --config c.yaml", "cannot be read as YAML"
    ),
    # Models that lie about themselves.
    "architecture and weights": Case(
        edited("model.json", architecture__hidden_dim=8192), PREDICT, "has shape"
    ),
    "layers of a model": Case(
        edited("model.json", architecture__layers=10**9), PREDICT, "layers=NUMBER"
    ),
    "outputs of a model": Case(
        edited("model.json", target__num_outputs=10**9), PREDICT, "num_outputs=NUMBER"
    ),
    "width beyond 64 bits": Case(
        edited("model.json", architecture__node_encoder__sizes=[2**64]),
        PREDICT,
        "too large to build",
    ),
    "kind of an encoder": Case(
        edited("model.json", architecture__node_encoder__kind={}), PREDICT, "node_encoder.kind"
    ),
    "JSON depth": Case(
        lambda folder: (folder / "run" / "model.json").write_text(
            '{"a":' * 9000 + "1" + "}" * 9000
        ),
        PREDICT,
        "nested more than 100 deep",
    ),
    # Internal exceptions.
    "metadata of another type": Case(
        forged(meta__meta={"rejected": 5}),
        "data info archive",
        "meta.rejected has an unexpected value, 5",
    ),
    "origin of another type": Case(
        forged(meta__meta={"origin": []}),
        "data prepare archive",
        "meta.origin has an unexpected value",
    ),
    "statistics of another type": Case(
        forged(meta__statistics={"graphs": "x"}), "data list --cache-dir .", "statistics", 0
    ),
    "fields of another type": Case(
        forged(meta__fields=[1]), "train archive --out new", "not an archive"
    ),
    "type that is an expression": Case(
        forged(meta__fields__x__dtype="2,"),
        "train archive --out new",
        "fields.x.dtype: '2,' is not",
    ),
    "task of another type": Case(
        forged(meta__task=None), "train archive --out new", "not an archive"
    ),
    "array outside the archive": Case(
        forged(arrays={"../m": {"dtype": "<f4", "shape": [1], "bytes": 1, "sha256": ""}}),
        "data info archive",
        "is not an array's name",
    ),
    "classes of 10⁹": Case(
        pt_folder(a=pt([graph(y=torch.tensor([10**9 * (i % 2) + i])) for i in range(9)])),
        "train graphs --out new",
        "--limits num_outputs=NUMBER",
    ),
    "label of 2⁶²": Case(
        pt_folder(a=pt([graph(y=torch.tensor([2**62 * (i % 2)])) for i in range(9)])),
        "train graphs --out new",
        "--limits num_outputs=NUMBER",
    ),
    "summary without best_epoch": Case(
        edited("summary.json", best_epoch=...), "report run --out r.html", "best_epoch is missing"
    ),
    "summary of other types": Case(
        edited("summary.json", graphs=[1], epochs="x"),
        "report run --out r.html",
        "summary.json: damaged",
    ),
    "1e308 in the metrics": Case(
        lambda folder: (folder / "run" / "metrics.csv").write_text(
            "epoch,train_loss,val_loss,val_mae\n1,1e308,-1e308,1e308\n2,-1e308,1,1\n"
        ),
        "report run --out r.html",
        "r.html",
        0,
    ),
    "metrics without an epoch": Case(
        lambda folder: (folder / "run" / "metrics.csv").write_text("loss\n1\n"),
        "report run --out r.html",
        "a row has no epoch",
    ),
    "places outside a dictionary": Case(
        copied("dictionary.parquet"),
        "data prepare dictionary.parquet",
        "a place outside the dictionary",
    ),
    "bonds without an end": Case(zinc(bond_offset=[0, 1, 2**47]), ZINC, "bond_offset does not add"),
    "date after 9999": Case(late_date, "data prepare late.parquet --target y", "column 'y': "),
    # In the way.
    "text column": Case(
        tables("graph,node,age,city\na,u,1,Rome\n"),
        "data prepare tables",
        "leave it out with  --ignore city",
    ),
    "text column left out": Case(
        tables("graph,node,age,city\na,u,1,Rome\n"),
        "data prepare tables --ignore city",
        "graphs      1",
        0,
    ),
    "misspelt column left out": Case(
        tables(),
        "data prepare tables --ignore agee",
        "ignored_columns: 'agee': unknown; the nearest is 'age'",
    ),
}
