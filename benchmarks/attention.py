"""Processor time of forward and backward with both attention kernels, on ZINC-sized graphs.

Run it from the repository: ``python benchmarks/attention.py [--threads 1] [--graphs 128]``.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer, LaplacianSpectrum


def molecule_like(num_nodes: int) -> Data:
    """A chain with a few more bonds, as a molecule has."""
    chain = torch.arange(num_nodes - 1)
    source = torch.cat([chain, torch.randint(num_nodes, (3,))])
    target = torch.cat([chain + 1, torch.randint(num_nodes, (3,))])
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return Data(
        x=torch.randint(21, (num_nodes, 1)),
        edge_index=edge_index,
        edge_attr=torch.randint(1, 4, (edge_index.size(1),)),
    )


def seconds(model: Eigenformer, batch: Batch) -> float:
    """Processor time of one step, after one to warm up."""
    for _ in range(2):
        start = time.process_time()
        model(batch).sum().backward()
        taken = time.process_time() - start
    return taken


def main() -> None:
    """Prints a line per preset and kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--graphs", type=int, default=128)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    sizes = torch.randint(10, 38, (arguments.graphs,)).tolist()
    batch = Batch.from_data_list(LaplacianSpectrum().many([molecule_like(n) for n in sizes]))
    for preset in ("zinc", "zinc-feat"):
        for backend in ("literal", "torch"):
            model = Eigenformer.from_preset(preset, attention_backend=backend)
            print(f"{preset:10} {backend:8} {seconds(model, batch):7.2f} s")


if __name__ == "__main__":
    main()
