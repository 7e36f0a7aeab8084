"""Random subsets of each graph's frequencies, which regularise training."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.config import EigenformerConfig
from eigenformer.ragged import Checked, frequency_counts, graph_of_rows, graph_sizes
from eigenformer.transfer import on_device

D = TypeVar("D", bound=Data)


def sample_frequencies(
    batch: D,
    fraction: float,
    whole_eigenspaces: bool = True,
    seeds: Sequence[int] | None = None,
) -> D:
    r"""Returns a shallow copy of the batch in which graphs use a random part of their frequencies.

    Adds ``frequency_weights`` ``[Σk]``: 1 for a frequency in use and 0 for one left out. A graph
    with n nodes uses :math:`\lceil f n \rceil` frequencies.

    The sample is drawn on the CPU, so it is the same on every device. If a model has checked the
    batch before it was moved, nothing is read back from the device.

    Args:
        batch: Graphs with their spectra.
        fraction: f, the fraction of the frequencies.
        whole_eigenspaces: Whether to sample whole eigenspaces, rounded up, so that the result does
            not depend on the choice of a basis. False samples single frequencies, as the paper
            literally does; the result then depends on the basis if an eigenvalue repeats.
        seeds: One seed per graph. The sample of a graph then depends only on its seed, not on the
            other graphs of the batch (default: PyTorch's global random numbers).
    """
    checked: Checked | None = batch.get("checked")
    if checked is None:
        sizes = graph_sizes(batch)
        counts = frequency_counts(batch, sizes)
        values = batch.eigenvalues.cpu()
    else:
        sizes, counts = checked.sizes, checked.num_frequencies
        values = torch.from_numpy(checked.eigenvalues)
    if seeds is not None and len(seeds) != len(sizes):
        raise ValueError(f"seeds: got {len(seeds)} for {len(sizes)} graphs")
    graph = graph_of_rows(counts, values.device)
    if whole_eigenspaces:
        # All eigenvalues of an eigenspace are exactly equal (see spectrum.py).
        starts = torch.ones_like(graph)
        starts[1:] = ~((graph[1:] == graph[:-1]) & (values[1:] == values[:-1]))
        unit = starts.cumsum(0) - 1
    else:
        unit = torch.arange(len(graph))
    count = unit.bincount()
    unit_graph = torch.empty_like(count).index_copy_(0, unit, graph)
    # Sort by graph, at random within each graph. Then take units until the graph has its share.
    chance = _random_numbers(unit_graph, seeds)
    order = chance.add(unit_graph).argsort()
    taken = count[order].cumsum(0) - count[order]
    before = torch.tensor([0, *accumulate(counts)][:-1])
    share = torch.tensor(sizes, dtype=torch.float64).mul(fraction)
    # 0.2 · 5 is one frequency, whatever the rounding. The minimum is one.
    share = share.sub(1e-9).ceil().clamp(min=1)
    keep = taken - before[unit_graph[order]] < share[unit_graph[order]]
    kept = torch.zeros_like(keep).index_copy_(0, order, keep)[unit]
    sampled = copy.copy(batch)
    sampled.frequency_weights = on_device(kept, batch.eigenvalues.device, batch.eigenvalues.dtype)
    return sampled


def sample_for(config: object, batch: D, seeds: Sequence[int] | None = None) -> D:
    """Samples frequencies as the settings of a model ask for in training.

    Returns the batch itself if the model uses all frequencies.

    Args:
        config: The settings of a model of any kind.
        batch: Graphs, with their spectra if the model needs them.
        seeds: See :func:`sample_frequencies`.
    """
    if not isinstance(config, EigenformerConfig) or config.frequency_fraction == 1:
        return batch
    whole = config.frequency_draw == "eigenspaces"
    return sample_frequencies(batch, config.frequency_fraction, whole, seeds)


def _random_numbers(graph: Tensor, seeds: Sequence[int] | None) -> Tensor:
    """Returns one number in [0, 1) per entry of ``graph``. With seeds, each graph has a stream."""
    if seeds is None:
        return torch.rand(len(graph), dtype=torch.float64)
    streams = [torch.Generator().manual_seed(seed) for seed in seeds]
    counts = graph.bincount(minlength=len(seeds)).tolist()
    numbers = [
        torch.rand(count, dtype=torch.float64, generator=stream)
        for count, stream in zip(counts, streams, strict=True)
    ]
    return torch.cat(numbers)
