"""The graphs used in measurements: from a prepared archive, or random graphs of similar sizes."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import coalesce, remove_self_loops

from eigenformer.config import EncodingSpec, ModelConfig
from eigenformer.encoders import build_encoder
from eigenformer.spectrum import LaplacianSpectrum
from eigenformer.speed.setups import WORKLOADS, Setup, Workload


def find_archive(workload: str, cache_dir: Path) -> Path | None:
    """Returns the archive with the graphs of a workload; None if it was not prepared."""
    for name in WORKLOADS[workload].datasets:
        # The name of PATTERN's folder also contains the number of generated graphs.
        for manifest in sorted(cache_dir.glob(f"{name}*/manifest.json")):
            return manifest.parent
    return None


def make_batch(setup: Setup) -> Batch:
    """Builds the batch of one measurement, with spectra and the features that its model needs."""
    load = WORKLOADS[setup.workload]
    spectrum = LaplacianSpectrum()
    if setup.nodes is not None:
        graphs = [_random_graph(setup.nodes, 4.0)]
        spectrum = LaplacianSpectrum(num_frequencies=min(64, setup.nodes))
    elif setup.archive is not None:
        graphs = _from_archive(setup.archive, load)
    else:
        sizes = torch.linspace(load.low, load.high, load.graphs).round().long().tolist()
        graphs = [_random_graph(n, load.degree) for n in sizes]
    config = setup.config()
    for graph in graphs:
        _add_features(graph, config)
    if config.needs.encoding is not None:
        graphs = _encoded(graphs, config.needs.encoding)
    return Batch.from_data_list(spectrum.many(graphs) if _spectral(setup) else graphs)


def _spectral(setup: Setup) -> bool:
    return setup.part == "attention" or setup.config().needs.spectrum


def _encoded(graphs: list[Data], encoding: EncodingSpec) -> list[Data]:
    from eigenformer.data.archive import GraphArchive
    from eigenformer.data.encodings import with_encoding_in_memory

    return with_encoding_in_memory(GraphArchive.from_data_list(graphs), encoding).to_data_list()


def _from_archive(folder: str, load: Workload) -> list[Data]:
    from eigenformer.data.archive import GraphArchive

    archive = GraphArchive.open(folder)
    chosen = [archive[int(i)] for i in archive.indices("train")[: load.graphs]]
    if len(chosen) < load.graphs:
        raise ValueError(f"{folder}: {len(chosen)} graphs to train on, expected {load.graphs}")
    names = ("x", "edge_index", "edge_attr")
    return [Data(num_nodes=g.num_nodes, **{n: g[n] for n in names if n in g}) for g in chosen]


def _random_graph(nodes: int, degree: float) -> Data:
    """Builds a graph from random edges and a path through all nodes, which keeps it connected."""
    path = torch.arange(nodes)
    random = torch.randint(nodes, (2, max(0, int(nodes * (degree - 2) / 2))))
    edges = torch.cat([torch.stack([path[:-1], path[1:]]), random], 1)
    edges = coalesce(remove_self_loops(torch.cat([edges, edges.flip(0)], 1))[0])
    return Data(edge_index=edges, num_nodes=nodes)


def _add_features(graph: Data, config: ModelConfig) -> None:
    """Adds random features that fit the encoders of the model, if features are missing."""
    for name, spec, rows in (
        ("x", config.node_encoder, graph.num_nodes or 0),
        ("edge_attr", config.edge_encoder, graph.num_edges),
    ):
        if graph.get(name) is None and spec is not None:
            graph[name] = build_encoder(spec, 1).example(rows)
