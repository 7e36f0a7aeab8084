"""``eigenformer doctor``: which attention path is active and why, and whether all paths agree."""

from __future__ import annotations

import argparse

# float32 results of different orders of summation differ in their last digits.
_TOLERANCE = 1e-4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings; the exit code is 1 if the paths disagree."""
    import platform

    import torch
    import torch_geometric

    from eigenformer import __version__
    from eigenformer.kernels.native import load

    library, reason = load()
    print(f"eigenformer      {__version__}")
    print(f"Python           {platform.python_version()} on {platform.platform()}")
    print(f"PyTorch          {torch.__version__}, PyG {torch_geometric.__version__}")
    print(f"threads          {torch.get_num_threads()}")
    if library is None:
        print(f"attention        torch: {reason}")
        print("                 install a C++17 compiler (GCC or Clang), then reinstall")
    else:
        pool = "PyTorch's threads" if library.shares_threads else "threads of its own"
        print(f"attention        native for float32 on the CPU ({library.instructions}, {pool});")
        print("                 torch for other types and devices")
    backends = ("torch",) if library is None else ("torch", "native")
    healthy = True
    for backend in backends:
        error = _largest_difference(backend)
        healthy &= error < _TOLERANCE
        verdict = "agrees with" if error < _TOLERANCE else "DIFFERS FROM"
        print(f"self-check       {backend} {verdict} literal: largest difference {error:.1e}")
    return 0 if healthy else 1


def _largest_difference(backend: str) -> float:
    """Output and gradients of a small model against the oracle, relative to their size."""
    import torch
    from torch_geometric.data import Batch, Data

    from eigenformer import Eigenformer, LaplacianSpectrum

    with torch.random.fork_rng():
        torch.manual_seed(0)
        graphs = [
            Data(
                x=torch.randint(21, (n, 1)),
                edge_index=torch.randint(n, (2, 2 * n)).unique(dim=1),
            )
            for n in (1, 9, 60)
        ]
        for graph in graphs:
            graph.edge_attr = torch.randint(1, 4, (graph.num_edges,))
        batch = Batch.from_data_list(LaplacianSpectrum().many(graphs))
        model = Eigenformer.from_preset("zinc-feat", layers=2, psi="identity").eval()
    results = []
    for name in ("literal", backend):
        model.config = model.config.replace(attention_backend=name)
        model.zero_grad()
        out = model(batch)
        out.sum().backward()
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        results.append([out.detach().flatten(), torch.cat(gradients)])
    return max(
        float((mine - oracle).abs().max() / oracle.abs().max())
        for oracle, mine in zip(*results, strict=True)
    )
