"""The cases about the user's own graphs, outputs and targets."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import torch
from torch_geometric.data import Data

from eigenformer.data.archive import GraphArchive
from tests.corpus.cases import PREDICT, Case, edited, nothing, pt, pt_folder, text
from tests.corpus.runs import both, graphs, molecules, read
from tests.fuzz.seeds import SMALL

EDGES = torch.tensor([[0, 1], [1, 0]])
MANY = " --model.{0} 1000000000"
OWN_TRAIN = f"train graphs --out new {SMALL}"


def networkx(folder: Path) -> None:
    """Graphs whose attributes are not called ``x`` and ``edge_attr``."""
    made = []
    for number in range(12):
        graph = nx.path_graph(["a", "b", "c"])
        nx.set_node_attributes(graph, number / 7, "age")
        nx.set_edge_attributes(graph, number / 3, "weight")
        graph.graph["y"] = number / 2
        made.append(graph)
    GraphArchive.from_networkx(made).save(folder / "archive")


def dataset(folder: Path) -> None:
    """An archive as ``from_dataset`` makes it of a PyG dataset of classes."""
    made = [Data(x=torch.ones(2, 1), edge_index=EDGES, y=torch.tensor([i % 3])) for i in range(24)]
    GraphArchive.from_data_list(made).save(folder / "archive")


def knows_its_features(folder: Path) -> bool:
    expected = read(folder / "new" / "model.json")["input_format"]
    return (expected["node_features"], expected["edge_features"]) == (["age"], ["weight"])


def tables(folder: Path) -> None:
    """Targets of nodes that have names, and edges in one direction."""
    (folder / "tables").mkdir()
    names = [f"g{number}" for number in range(12)]
    parts = {
        "graphs": ["graph", *names],
        "nodes": [
            "graph,node,age,y",
            *(f"{g},{n},0.5,{i}" for i, g in enumerate(names) for n in "uv"),
        ],
        "edges": ["graph,source,target", *(f"{g},u,v" for g in names)],
    }
    for name, lines in parts.items():
        (folder / "tables" / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")


def by_split(**columns: Callable[[str, int], object]) -> Callable[[Path], object]:
    """A table whose targets depend on the split and the number of a row."""
    splits = ["train", "train", "val", "test"] * 6
    rows = [
        ",".join(["C" * (i + 1), split, *(str(value(split, i)) for value in columns.values())])
        for i, split in enumerate(splits)
    ]
    return text("m.csv", "\n".join([f"smiles,split,{','.join(columns)}", *rows]) + "\n")


def name_of_bytes(folder: Path) -> None:
    (folder / "graphs").mkdir()
    data = pt(Data(x=torch.ones(2, 1), edge_index=EDGES, y=torch.ones(1)))
    Path(os.fsdecode(os.fsencode(folder / "graphs") + b"/bad\xff.pt")).write_bytes(data)


def cells(folder: Path) -> list[list[str]]:
    with (folder / "new.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def unchanged(name: str) -> Callable[[Path], bool]:
    return lambda folder: (folder / "run" / name).read_text().startswith("epoch,")


OWN: dict[str, Case] = {
    # What is written.
    "formulas": Case(
        text("m.csv", "id,smiles\n=1+1,CCO\n-1.5,CC\n"),
        f"{PREDICT} --escape-formulas",
        "2 of 2 rows",
        0,
        lambda folder: [row[0] for row in cells(folder)] == ["id", "'=1+1", "-1.5"],
    ),
    "output that is a file of a model": Case(
        nothing,
        "predict run m.csv --out run/metrics.csv",
        "run/metrics.csv: is a file of a model",
        check=unchanged("metrics.csv"),
    ),
    "output that is a file of the input": Case(
        both(graphs(x=torch.ones(2, 1)), text("graphs/notes.csv", "mine")),
        "predict run graphs --out graphs/../graphs/notes.csv",
        "notes.csv: is a file of the input graphs",
        check=lambda folder: (folder / "graphs" / "notes.csv").read_text() == "mine",
    ),
    "output of another format": Case(
        nothing,
        "predict run m.csv --out new.xlsx",
        "new.xlsx: predictions are written to .csv",
        check=lambda folder: not (folder / "new.xlsx").exists(),
    ),
    "a long cell keeps its row": Case(
        text("m.csv", "smiles\nCCO\n" + "C" * 2_000_000 + "\nCC\n"),
        PREDICT,
        "2 of 3 rows predicted",
        0,
        lambda folder: "the length of a cell exceeds" in cells(folder)[2][-1],
    ),
    # Numbers.
    **{
        f"{number} in JSON": Case(
            lambda folder, n=number: edited("model.json", validation=float(n))(folder),
            PREDICT,
            "is not a number in JSON",
        )
        for number in ("Infinity", "-Infinity", "NaN")
    },
    "1e999 in JSON": Case(
        lambda folder: (folder / "run" / "summary.json").write_text('{"test": 1e999}'),
        "report run --out r.html",
        "1e999 is beyond the largest number",
    ),
    "metric that is NaN in every epoch": Case(
        by_split(y=lambda split, i: i % 8 == 0 if split == "train" else True),
        f"train m.csv --target y --split-column split --task binary --out new {SMALL}",
        "val auroc is undefined in every epoch",
        0,
    ),
    "target without values": Case(
        by_split(a=lambda _, i: i / 2, b=lambda split, i: i if split == "train" else ""),
        f"train m.csv --target a b --split-column split --out new {SMALL}",
        "in the split 'val', 'b' has no values",
        0,
    ),
    "targets of 1e-200": Case(
        molecules(*(number * 1e-200 for number in range(20))),
        f"train m.csv --target y --out new {SMALL}",
        "which single precision cannot tell apart",
        0,
    ),
    "features of 1e39": Case(
        graphs(x=torch.full((2, 1), 1e39, dtype=torch.float64)),
        OWN_TRAIN,
        "'x' holds 1e+39, which exceeds single precision",
    ),
    "2⁶² nodes": Case(
        pt_folder(a=pt(Data(edge_index=EDGES, num_nodes=2**62, y=torch.ones(1)))),
        "data prepare graphs",
        "--limits nodes=NUMBER",
    ),
    **{
        f"{setting} of {kind}": Case(
            nothing,
            f"train m.csv --target sol --out new --model.kind {kind}{MANY.format(setting)}",
            f"--limits {setting.rpartition('.')[2]}=NUMBER",
        )
        for kind, setting in (
            ("exphormer", "expander_degree"),
            ("exphormer", "virtual_nodes"),
            ("graphormer", "max_distance"),
            ("graphormer", "max_degree"),
            ("egt", "pair_width"),
            ("grit", "steps"),
            ("transformer", "encoding.vectors"),
        )
    },
    # The user's graphs.
    "attributes of networkx": Case(
        networkx, f"train archive --out new {SMALL}", "test mae", 0, knows_its_features
    ),
    "dataset of PyG": Case(
        dataset,
        f"train archive --task multiclass --split-by random --out new {SMALL}",
        "test accuracy",
        0,
    ),
    "edges in one direction": Case(
        tables, f"train tables --target y --undirected --out new {SMALL}", "test mae", 0
    ),
    "file name that is not UTF-8": Case(
        name_of_bytes, "data prepare graphs", "the path is not valid UTF-8; rename"
    ),
}
