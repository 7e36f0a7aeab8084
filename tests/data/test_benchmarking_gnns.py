"""The official files: the addresses, names and layouts that PyG's own dataset classes have."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.datasets import ZINC, GNNBenchmarkDataset, LRGBDataset

from eigenformer.config import BenchmarkData, ConfigError
from eigenformer.data import BENCHMARKS, DataError, prepare
from eigenformer.data.benchmarks import builder
from eigenformer.data.fields import SPLITS
from eigenformer.data.workspace import Workspace
from eigenformer.training.loading import load_data
from eigenformer.training.planning import plan

PEPTIDES = ("peptides-func", "peptides-struct")


def official(name):
    return builder(name, official=BENCHMARKS[name].generated).layouts[-1]


def pyg_addresses(name):
    if name == "zinc":
        return [ZINC.url, *(ZINC.split_url.format(split) for split in SPLITS)]
    return [LRGBDataset.urls[name] if name in PEPTIDES else GNNBenchmarkDataset.urls[name.upper()]]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_addresses_and_names_are_those_of_pyg(name):
    addresses = pyg_addresses(name)
    assert [file.url for file in official(name)] == addresses
    names = [address.rpartition("/")[2].partition("?")[0] for address in addresses]
    assert [file.name for file in official(name)] == names


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def edges(nodes):
    """A path, there and back."""
    there = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return torch.cat([there, there.flip(0)], 1)


def write_zinc(folder, rng):
    def molecule():
        nodes = int(rng.integers(2, 7))
        bonds = torch.zeros(nodes, nodes, dtype=torch.long)
        row, column = edges(nodes)[:, : nodes - 1]
        bonds[row, column] = bonds[column, row] = torch.from_numpy(rng.integers(1, 4, nodes - 1))
        return {
            "num_atom": nodes,
            "atom_type": torch.from_numpy(rng.integers(0, 21, nodes)),
            "bond_type": bonds,
            "logP_SA_cycle_normalized": torch.from_numpy(rng.normal(size=1)),
        }

    with zipfile.ZipFile(folder / "molecules.zip", "w") as file:
        for split in SPLITS:
            data = pickle.dumps([molecule() for _ in range(5)])
            file.writestr(f"molecules/{split}.pickle", data)
            (folder / f"{split}.index").write_text("3,0,4\n")


def write_peptides(folder, rng, name):
    def graph():
        nodes = int(rng.integers(2, 7))
        index = edges(nodes)
        targets = {"peptides-func": 10, "peptides-struct": 11}[name]
        return (
            torch.from_numpy(rng.integers(0, 5, (nodes, 9))),
            torch.from_numpy(rng.integers(0, 2, (index.shape[1], 3))),
            index,
            torch.from_numpy(rng.normal(size=(1, targets)).astype(np.float32)),
        )

    stem = LRGBDataset.dwnld_file_name[name]
    with zipfile.ZipFile(folder / f"{stem}.zip", "w") as file:
        for count, split in enumerate(SPLITS, 1):
            file.writestr(f"{stem}/{split}.pt", saved([graph() for _ in range(count)]))


def write_benchmarking(folder, rng, name):
    def graph():
        nodes = int(rng.integers(2, 7))
        index = edges(nodes)
        if name in ("pattern", "cluster"):
            types = {"pattern": 3, "cluster": 7}[name]
            return {
                "x": torch.eye(types)[torch.from_numpy(rng.integers(0, types, nodes))],
                "edge_index": index,
                "y": torch.from_numpy(rng.integers(0, 2, nodes)),
            }
        channels = {"mnist": 1, "cifar10": 3}[name]
        return {
            "x": torch.from_numpy(rng.random((nodes, channels), dtype=np.float32)),
            "pos": torch.from_numpy(rng.random((nodes, 2), dtype=np.float32)),
            "edge_index": index,
            "edge_attr": torch.from_numpy(rng.random(index.shape[1], dtype=np.float32)),
            "y": torch.from_numpy(rng.integers(0, 10, 1)),
        }

    with zipfile.ZipFile(folder / f"{name.upper()}_v2.zip", "w") as file:
        parts = [[graph() for _ in range(count)] for count in (3, 1, 2)]
        file.writestr(f"{name.upper()}_v2.pt", saved(parts))


def write(raw, name):
    folder, rng = raw / name, np.random.default_rng(0)
    folder.mkdir(parents=True)
    if name == "zinc":
        write_zinc(folder, rng)
    elif name in PEPTIDES:
        write_peptides(folder, rng, name)
    else:
        write_benchmarking(folder, rng, name)
    return folder


def pyg_graphs(name, folder, root):
    """What PyG makes of the same files, unpacked as its own downloads are."""
    with zipfile.ZipFile(next(folder.glob("*.zip"))) as file:
        if name == "zinc":
            file.extractall(root)
            (root / "molecules").rename(root / "raw")
            for split in SPLITS:
                (root / "raw" / f"{split}.index").write_bytes(
                    (folder / f"{split}.index").read_bytes()
                )
            return [g for split in SPLITS for g in ZINC(str(root), subset=True, split=split)]
        if name in PEPTIDES:
            file.extractall(root / name)
            (root / name / LRGBDataset.dwnld_file_name[name]).rename(root / name / "raw")
            return [g for split in SPLITS for g in LRGBDataset(str(root), name, split=split)]
        file.extractall(root / name.upper() / "raw")
        make = GNNBenchmarkDataset
        return [g for split in SPLITS for g in make(str(root), name.upper(), split=split)]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_graphs_are_those_that_pyg_makes_of_the_same_files(name, tmp_path, recwarn):
    folder = write(tmp_path / "raw", name)
    generated = BENCHMARKS[name].generated
    archive = prepare(
        name,
        Workspace(tmp_path / "raw", tmp_path / "cache"),
        official=generated,
        with_spectra=False,
    ).archive
    expected = pyg_graphs(name, folder, tmp_path / "pyg")
    sizes = {"zinc": (3, 3, 3), **dict.fromkeys(PEPTIDES, (1, 2, 3))}.get(name, (3, 1, 2))
    assert archive.statistics.splits == sizes
    assert len(archive) == len(expected)
    for graph, other in zip(archive, expected, strict=True):
        assert torch.equal(graph.edge_index, other.edge_index)
        assert torch.equal(graph.y, other.y)
        x = other.x if "pos" not in other else torch.cat([other.x, other.pos], 1)
        assert torch.equal(graph.x, x)
        assert graph.x.dtype == x.dtype
        if "edge_attr" in graph:
            assert torch.equal(graph.edge_attr, other.edge_attr.view_as(graph.edge_attr))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_official_file_with_other_contents_is_damaged(name, tmp_path):
    folder = write(tmp_path / "raw", name)
    with zipfile.ZipFile(next(folder.glob("*.zip")), "w") as file:
        file.writestr("other.txt", "nothing")
    generated = BENCHMARKS[name].generated
    with pytest.raises(DataError, match=r"\.zip.*: damaged \(.*; delete it, or replace it with"):
        prepare(
            name,
            Workspace(tmp_path / "raw", tmp_path / "cache"),
            official=generated,
            with_spectra=False,
        )


def test_an_official_file_in_the_cache_is_the_same_ever_after(tmp_path):
    cache = tmp_path / "cache"
    folder = write(cache / "raw", "pattern")
    file = folder / "PATTERN_v2.zip"
    prepare("pattern", Workspace(None, cache), official=True, with_spectra=False)
    record = json.loads((folder / "PATTERN_v2.zip.sha256.json").read_text())
    assert record["size"] == file.stat().st_size
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more", "more")
    with pytest.raises(DataError, match=r"PATTERN_v2\.zip: not the file that was first used here"):
        prepare("pattern", Workspace(None, cache), official=True, with_spectra=False)


def test_a_run_can_ask_for_the_published_graphs(tmp_path):
    write(tmp_path / "raw", "pattern")
    config = BenchmarkData("pattern", official=True)
    data = load_data(config, Workspace(tmp_path / "raw", tmp_path / "cache"))
    assert {name: len(graphs) for name, graphs in data.splits.items()} == {
        "train": 3,
        "val": 1,
        "test": 2,
    }
    table = tmp_path / "own.csv"
    table.write_text("smiles,y\nCC,1\n")
    with pytest.raises(ConfigError, match=r"data\.official: for pattern and cluster only"):
        plan({"data": {"dataset": str(table), "targets": ["y"], "official": True}})
