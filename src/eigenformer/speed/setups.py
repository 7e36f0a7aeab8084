"""What is measured: models and batches, and how their sizes grow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from eigenformer.config import EigenformerConfig, ModelConfig, load_preset, networks, presets
from eigenformer.devices import resolve_device
from eigenformer.kernels import KERNELS, Request, why_not
from eigenformer.models import comparable

BACKENDS = tuple(kernel.name for kernel in reversed(KERNELS))
PEERS = tuple(name for name in networks() if name != "eigenformer")


@dataclass(frozen=True)
class Workload:
    """A batch of a benchmark's graphs, and the preset that is trained on it.

    The graphs are random if none of the archives is in the cache.

    Args:
        preset: Preset of the model.
        datasets: Prepared archives to take the graphs from, if one of them is in the cache.
        graphs: Number of graphs per batch.
        epoch: Number of training graphs of the benchmark, for the seconds of an epoch.
        low: Number of nodes of the smallest random graph.
        high: Number of nodes of the largest random graph; sizes are uniform in between.
        degree: Number of neighbours per node in random graphs.
    """

    preset: str
    datasets: tuple[str, ...]
    graphs: int
    epoch: int
    low: int
    high: int
    degree: float


WORKLOADS = {
    "zinc": Workload("zinc", ("zinc",), 128, 10_000, 9, 37, 2.1),
    "superpixels": Workload("cifar10", ("cifar10",), 32, 45_000, 85, 150, 8.0),
    "sbm": Workload("pattern", ("pattern",), 16, 10_000, 44, 188, 40.0),
    "peptides": Workload("peptides-func", ("peptides-func",), 12, 10_873, 8, 292, 2.0),
}


@dataclass(frozen=True)
class Setup:
    """One measurement.

    Args:
        model: ``literal``, ``torch``, ``native``, ``triton`` or one of the peers.
        workload: Name of the workload.
        archive: Folder of the prepared archive with the graphs; None for random graphs.
        threads: Number of threads of PyTorch, which the native kernel also uses.
        repeats: Number of measured steps; the fastest one counts.
        part: What is measured: ``step`` is forward, backward and optimiser of the whole model,
            ``attention`` is forward and backward of one attention layer.
        nodes: Number of nodes of a single graph that replaces the graphs of the workload; it has
            at most 64 frequencies.
        changes: Settings that replace those of the preset's model.
        device: Device to compute on.
    """

    model: str
    workload: str = "zinc"
    archive: str | None = None
    threads: int = 1
    repeats: int = 5
    part: str = "step"
    nodes: int | None = None
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    device: str = "cpu"

    def eigenformer(self) -> EigenformerConfig:
        """Returns the Eigenformer that is measured, or that the peers are compared with."""
        config = load_preset(WORKLOADS[self.workload].preset).model.replace(**self.changes)
        assert isinstance(config, EigenformerConfig)
        return config

    def config(self) -> ModelConfig:
        """Returns the architecture that is measured.

        A peer has the settings of its preset. Without a preset for these graphs, it is as large as
        the Eigenformer.
        """
        if self.model not in PEERS:
            return self.eigenformer()
        return _peer(self.model, WORKLOADS[self.workload].preset)


@cache
def _peer(network: str, preset: str) -> ModelConfig:
    if f"{preset}-{network}" in presets():
        return load_preset(f"{preset}-{network}").model
    return comparable(network, load_preset(preset).model)


def steps(
    archives: dict[str, str | None], threads: Sequence[int], device: str = "cpu"
) -> Iterator[Setup]:
    """Yields a training step of every model on every workload.

    ``archives`` maps each workload to its archive, or to None for random graphs.
    """
    for workload, archive in archives.items():
        for count in threads:
            for model in (*BACKENDS, *PEERS):
                repeats = 1 if model == "literal" else 5
                setup = Setup(model, workload, archive, count, repeats, device=device)
                if computes(setup):
                    yield setup


def growth(device: str = "cpu") -> Iterator[tuple[str, int, Setup]]:
    """Yields setups that show how time and memory grow with nodes, the width of φ, and heads."""
    for name, value, setup in _growth():
        setup = dataclasses.replace(setup, device=device)
        if computes(setup):
            yield name, value, setup


def _growth() -> Iterator[tuple[str, int, Setup]]:
    largest = {"literal": 256, "torch": 1024}
    for model in BACKENDS:
        for nodes in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
            if nodes <= largest.get(model, nodes):
                yield "nodes", nodes, Setup(model, part="attention", nodes=nodes, repeats=3)
    for model in BACKENDS:
        if model == "literal":
            continue
        for width in (8, 16, 32, 64, 128):
            yield "phi_width", width, Setup(model, changes={"phi_width": width}, repeats=3)
        for heads in (1, 2, 4, 8, 16):
            changes = {"heads": heads, "hidden_dim": 64}
            yield "heads", heads, Setup(model, changes=changes, repeats=3)


def computes(setup: Setup) -> bool:
    """Whether a model computes a setup itself; otherwise another kernel would be measured."""
    config, kernels = setup.eigenformer(), {str(kernel.name): kernel for kernel in KERNELS}
    if setup.model not in kernels:
        return True
    request = Request(
        device=resolve_device(setup.device),
        features=config.feature_attention,
        edges=config.edge_encoder is not None and setup.part == "step",
        dropout=config.attention_dropout > 0,
        channels=config.hidden_dim // config.heads,
    )
    return why_not(kernels[setup.model], request) is None


def literal_gigabytes(setup: Setup) -> float:
    """Estimates the memory of the literal kernel: three tensors of B·H·N²·p numbers per layer."""
    config, load = setup.eigenformer(), WORKLOADS[setup.workload]
    graphs, nodes = (load.graphs, load.high) if setup.nodes is None else (1, setup.nodes)
    layers = config.layers if setup.part == "step" else 1
    return 3 * 4 * layers * graphs * config.heads * nodes**2 * config.phi_width / 2**30
