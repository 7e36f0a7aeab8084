"""Speed and memory of a training step, side by side with other graph networks.

Every measurement runs in a process of its own, so that its peak of memory is its own. What is
compared are processor times: on a machine that others use too, wall clocks tell little.
"""

from __future__ import annotations

import bisect
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import coalesce, remove_self_loops

from eigenformer.config import load_preset
from eigenformer.spectrum import LaplacianSpectrum

BACKENDS = ("literal", "torch", "native")
PEERS = ("gps", "gated", "gine")


@dataclass(frozen=True)
class Workload:
    """Random graphs of a benchmark's sizes, and the preset that is trained on it.

    Args:
        preset: The model.
        graphs: Graphs in a batch.
        low: Nodes of the smallest graph.
        high: Nodes of the largest; sizes are uniform in between.
        degree: Neighbours of a node.
    """

    preset: str
    graphs: int
    low: int
    high: int
    degree: float


WORKLOADS = {
    "zinc": Workload("zinc", 128, 9, 37, 2.1),
    "superpixels": Workload("cifar10", 32, 85, 150, 8.0),
    "sbm": Workload("pattern", 16, 44, 188, 40.0),
    "peptides": Workload("peptides-func", 12, 8, 292, 2.0),
}


@dataclass(frozen=True)
class Setup:
    """One measurement.

    Args:
        model: ``literal``, ``torch``, ``native`` or one of the peers.
        workload: Name of a workload.
        threads: Of PyTorch, and so of the native kernel.
        repeats: Steps measured, of which the fastest counts.
        part: ``step`` is forward, backward and optimiser of the whole model, ``attention`` is
            forward and backward of one attention layer.
        nodes: Instead of the workload's: one graph of so many nodes, with 64 frequencies at most.
        changes: Settings of the model other than the preset's.
    """

    model: str
    workload: str = "zinc"
    threads: int = 1
    repeats: int = 5
    part: str = "step"
    nodes: int | None = None
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """Processor seconds, wall-clock seconds, megabytes above the level before the step."""

    cpu: float
    wall: float
    memory: float
    parameters: int


def measure(setup: Setup) -> Measurement | None:
    """Measures time and memory, each in a new process; None where it failed.

    For memory, freed arrays go back to the system at once, so that the peak is of what is in use
    and not of what the allocator holds back; that costs time, hence two processes.
    """
    timed = _run(setup, {})
    if timed is None:
        return None
    give_back = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    weighed = _run(dataclasses.replace(setup, repeats=1), give_back)
    return None if weighed is None else dataclasses.replace(timed, memory=weighed.memory)


def _run(setup: Setup, environment: dict[str, str]) -> Measurement | None:
    source = str(Path(__file__).parents[1])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": path,
        **environment,
    }
    command = [sys.executable, "-m", __name__, json.dumps(dataclasses.asdict(setup))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        return None
    return Measurement(**json.loads(result.stdout))


def measure_here(setup: Setup) -> Measurement:
    """Measures in this process."""
    torch.manual_seed(0)
    torch.set_num_threads(setup.threads)
    batch = _batch(setup)
    small = Batch.from_data_list(batch.to_data_list()[:2]) if setup.nodes is None else batch
    model, loss = _model(setup, batch)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step(data: Data) -> None:
        optimizer.zero_grad()
        loss(data).backward()
        if setup.part == "step":
            optimizer.step()

    # Libraries load and buffers grow once, on two graphs: not what is asked for.
    if setup.nodes is None:
        step(small)
    before = _memory("VmRSS")
    _forget_peak()
    cpu, wall = [], []
    for _ in range(setup.repeats):
        begin = time.process_time(), time.perf_counter()
        step(batch)
        cpu.append(time.process_time() - begin[0])
        wall.append(time.perf_counter() - begin[1])
        if len(cpu) == 1:
            memory = _memory("VmHWM") - before
    parameters = sum(p.numel() for p in model.parameters())
    return Measurement(min(cpu), min(wall), memory, parameters)


def _batch(setup: Setup) -> Batch:
    if setup.nodes is not None:
        graphs = [_graph(setup.nodes, 4.0)]
        return Batch.from_data_list([LaplacianSpectrum(k=min(64, setup.nodes))(graphs[0])])
    load = WORKLOADS[setup.workload]
    sizes = torch.linspace(load.low, load.high, load.graphs).round().long().tolist()
    graphs = [_graph(n, load.degree) for n in sizes]
    return Batch.from_data_list(LaplacianSpectrum().many(graphs))


def _graph(nodes: int, degree: float) -> Data:
    """A path through all nodes, which keeps it connected, and random edges."""
    path = torch.arange(nodes)
    random = torch.randint(nodes, (2, max(0, int(nodes * (degree - 2) / 2))))
    edges = torch.cat([torch.stack([path[:-1], path[1:]]), random], 1)
    edges = coalesce(remove_self_loops(torch.cat([edges, edges.flip(0)], 1))[0])
    return Data(edge_index=edges, num_nodes=nodes)


def _model(setup: Setup, batch: Batch) -> tuple[nn.Module, Callable[[Data], Tensor]]:
    from eigenformer.attention import SpectrumAwareAttention
    from eigenformer.model import Eigenformer

    preset = load_preset(WORKLOADS[setup.workload].preset)
    config = preset.model.replace(**setup.changes)
    if setup.model in PEERS:
        size = Eigenformer(config).num_parameters()
        peer = _peer(setup.model, config.layers, size)
        return peer, lambda data: peer(data).sum()
    config = config.replace(attention_backend=setup.model)
    _add_features(batch, config)
    if setup.part == "step":
        model = Eigenformer(config)
        return model, lambda data: model(_with_features(data, config)).sum()
    attention = SpectrumAwareAttention(
        config.hidden_dim,
        config.heads,
        config.phi_width,
        config.phi_depth,
        feature_attention=config.feature_attention,
        dropout=config.attention_dropout,
        backend=setup.model,  # type: ignore[arg-type]
    )
    x = torch.randn(batch.num_nodes, config.hidden_dim, requires_grad=True)
    return attention, lambda data: attention(x[: data.num_nodes], data).sum()


def _with_features(data: Data, config: Any) -> Data:
    if data.x is None:
        _add_features(data, config)
    return data


def _add_features(data: Data, config: Any) -> None:
    """Random features of the kind that the model's encoders take."""
    for name, spec, rows in (
        ("x", config.node_encoder, data.num_nodes),
        ("edge_attr", config.edge_encoder, data.num_edges),
    ):
        if spec is None or spec.kind == "ones":
            continue
        if spec.kind == "embedding":
            data[name] = torch.randint(1, spec.num_types, (rows,))
        else:
            data[name] = torch.rand(rows, spec.in_channels)


class _Stack(nn.Module):
    """Layers of PyG, each followed by batch norm, ReLU and a residual, on given features."""

    def __init__(self, layers: list[nn.Module], width: int, wrap: bool, batch_wise: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in layers]) if wrap else None
        self.width, self.batch_wise = width, batch_wise
        self.features: dict[int, tuple[Tensor, Tensor]] = {}

    def forward(self, data: Data) -> Tensor:
        if id(data) not in self.features:
            rows = data.num_nodes, data.num_edges
            x, edges = (torch.randn(n, self.width) for n in rows)
            self.features[id(data)] = x, edges
        x, edges = self.features[id(data)]
        for i, layer in enumerate(self.layers):
            if self.batch_wise:
                x = layer(x, data.edge_index, data.batch, edge_attr=edges)
            else:
                x = layer(x, data.edge_index, edges)
                if self.norms is not None:
                    x = x + self.norms[i](x).relu()
        return x


def _peer(name: str, layers: int, parameters: int) -> nn.Module:
    if name == "gps":
        return _build_peer(name, 10, 64)

    # The widest that has no more parameters than the Eigenformer; they grow with the width.
    def size(width: int) -> int:
        return sum(p.numel() for p in _build_peer(name, layers, width).parameters())

    with torch.device("meta"):
        width = bisect.bisect(range(1, 1024), parameters, key=size)
    return _build_peer(name, layers, max(width, 1))


def _build_peer(name: str, layers: int, width: int) -> nn.Module:
    from torch_geometric.nn import GINEConv, GPSConv, ResGatedGraphConv

    def gine() -> nn.Module:
        mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        return GINEConv(mlp)

    make: dict[str, Callable[[], nn.Module]] = {
        "gps": lambda: GPSConv(width, gine(), heads=4, attn_kwargs={"dropout": 0.5}),
        "gated": lambda: ResGatedGraphConv(width, width, edge_dim=width),
        "gine": gine,
    }
    return _Stack([make[name]() for _ in range(layers)], width, name != "gps", name == "gps")


def _memory(field: str) -> float:
    """VmRSS or VmHWM of this process, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return math.nan


def _forget_peak() -> None:
    """Sets VmHWM to the memory in use now."""
    Path("/proc/self/clear_refs").write_text("5")


def literal_gigabytes(setup: Setup) -> float:
    """About what the literal implementation keeps: three tensors of B·H·N²·p numbers a layer."""
    model = load_preset(WORKLOADS[setup.workload].preset).model.replace(**setup.changes)
    load = WORKLOADS[setup.workload]
    graphs, nodes = (load.graphs, load.high) if setup.nodes is None else (1, setup.nodes)
    layers = model.layers if setup.part == "step" else 1
    return 3 * 4 * layers * graphs * model.heads * nodes**2 * model.phi_width / 2**30


def steps(workloads: list[str], threads: list[int]) -> Iterator[Setup]:
    """A training step of every model on every workload."""
    for workload in workloads:
        for count in threads:
            for model in (*BACKENDS, *PEERS):
                yield Setup(model, workload, count, repeats=1 if model == "literal" else 5)


def growth() -> Iterator[tuple[str, int, Setup]]:
    """How time and memory grow with nodes, with φ's width and with heads."""
    largest = {"literal": 256, "torch": 1024, "native": 4096}
    for model in BACKENDS:
        for nodes in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
            if nodes <= largest[model]:
                yield "nodes", nodes, Setup(model, part="attention", nodes=nodes, repeats=3)
    for model in ("torch", "native"):
        for width in (8, 16, 32, 64, 128):
            yield "phi_width", width, Setup(model, changes={"phi_width": width}, repeats=3)
        for heads in (1, 2, 4, 8, 16):
            changes = {"heads": heads, "hidden_dim": 64}
            yield "heads", heads, Setup(model, changes=changes, repeats=3)


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(measure_here(Setup(**json.loads(sys.argv[1]))))))
