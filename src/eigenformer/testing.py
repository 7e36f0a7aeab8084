"""Measured symmetry errors: how far a model is from the invariances it should have.

Each function takes graphs and a model: any function from a PyG batch to one row per graph or per
node. It returns the largest difference of the outputs, relative to the largest output. Put the
model in evaluation mode, because dropout and batch statistics break every symmetry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from eigenformer.spectrum import LaplacianSpectrum, eigenspaces

Model = Callable[[Batch], Tensor]


def permutation_error(model: Model, data: Data, generator: torch.Generator | None = None) -> float:
    """Measures the error after a random permutation of the nodes.

    Graph outputs must not change, and node outputs must be permuted in the same way. The spectrum
    of the permuted graph is computed again, so that LAPACK is free to choose other signs and bases.
    """
    _check_one(data)
    order = torch.randperm(data.num_nodes or 0, generator=generator)  # new node i was order[i]
    permuted = permute(data, order)
    before, after = _run(model, [data]), _run(model, [permuted])
    return _error(after, before[order] if len(before) == len(order) else before)


def batch_error(model: Model, graphs: Sequence[Data]) -> float:
    """Measures the difference between each graph alone and the same graph in a batch."""
    alone = torch.cat([_run(model, [data]) for data in graphs])
    return _error(_run(model, graphs), alone)


def sign_error(model: Model, data: Data, generator: torch.Generator | None = None) -> float:
    """Measures the error after random sign flips of the eigenvectors."""
    _check_one(data)
    signs = torch.randint(0, 2, data.eigenvalues.shape, generator=generator) * 2 - 1
    return _error(_run(model, [_rotate(data, torch.diag(signs.double()))]), _run(model, [data]))


def basis_error(model: Model, data: Data, generator: torch.Generator | None = None) -> float:
    """Measures the error after a random change of basis in every eigenspace.

    Each basis is multiplied by a random orthogonal matrix, which gives an equally valid basis.
    """
    _check_one(data)
    space = eigenspaces(data.eigenvalues)
    rotation = torch.zeros(len(space), len(space), dtype=torch.float64)
    for number in space.unique():
        inside = space == number
        size = int(inside.sum())
        random = torch.randn(size, size, dtype=torch.float64, generator=generator)
        rotation[inside.outer(inside)] = torch.linalg.qr(random)[0].flatten()
    return _error(_run(model, [_rotate(data, rotation)]), _run(model, [data]))


def permute(data: Data, order: Tensor) -> Data:
    """Returns the same graph with permuted nodes: node ``order[i]`` becomes node ``i``.

    All node attributes are permuted too. The spectrum is computed again, in the same precision.
    """
    num_nodes = data.num_nodes
    data = data.clone()
    for name in data.keys():  # noqa: SIM118, a Data is not a dict
        if name not in ("eigenvalues", "eigenvectors") and data.is_node_attr(name):
            data[name] = data[name][order]
    if data.edge_index is not None:
        inverse = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order)))
        data.edge_index = inverse[data.edge_index]
    data.num_nodes = num_nodes
    return LaplacianSpectrum(data.get("num_frequencies"), data.eigenvalues.dtype)(data)


def _check_one(data: Data) -> None:
    if isinstance(data, Batch) or "eigenvectors" not in data:
        raise ValueError("expected one graph, not a batch, with LaplacianSpectrum() applied")


def _rotate(data: Data, rotation: Tensor) -> Data:
    data = data.clone()
    vectors = data.eigenvectors.view(-1, len(rotation))
    data.eigenvectors = (vectors.double() @ rotation).to(vectors.dtype).flatten()
    return data


@torch.no_grad()
def _run(model: Model, graphs: Sequence[Data]) -> Tensor:
    return model(Batch.from_data_list(list(graphs)))


def _error(got: Tensor, expected: Tensor) -> float:
    scale = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
    return float((got - expected).abs().max() / scale)
