"""Compares the kernel with the equations on the device at hand, before it is used there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import cast

import torch
from torch import Tensor

from eigenformer.kernels.base import AttentionKernel, AttentionTerms, EdgeTerms, signed_sqrt
from eigenformer.kernels.literal import LiteralAttention
from eigenformer.ragged import RaggedGraphs, graph_of_rows
from eigenformer.scalar_mlp import ScalarMLP

TOLERANCE = 1e-4
"""The largest allowed difference, relative to the largest entry."""
_SMALLEST = 0.1  # entries that cancel to 0 are measured against this
_SIZES = (1, 7, 33)
_CHANNELS = (9, 20)  # narrow and wide heads have kernels of their own
_HEADS, _WIDTH, _EDGE_ROWS = 2, 8, 3


@cache
def disagreement(device: torch.device) -> str | None:
    """Returns how the kernel differs from ``literal`` on a device; None if they agree.

    The first call takes as long as compiling the kernels. The answer does not depend on the modes
    of the caller, such as evaluation without gradients.
    """
    try:
        full = torch.autocast(device.type, enabled=False)
        with torch.inference_mode(False), torch.enable_grad(), full:
            error = largest_difference(device)
    except Exception as problem:  # whatever a compiler or a driver raises
        reason = next(iter(str(problem).splitlines()), "")
        return f"it fails on this device ({type(problem).__name__}: {reason})"
    if error < TOLERANCE:
        return None
    return f"it differs from 'literal' by {error:.1e} on this device"


def largest_difference(device: torch.device) -> float:
    """Returns the largest relative difference in the output or any gradient."""
    from eigenformer.kernels.triton.kernel import TritonAttention

    errors = []
    for channels in _CHANNELS:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            graphs, terms = _example(channels)
        graphs, terms = graphs.to(device), _moved(terms, device)
        kernels = (TritonAttention, LiteralAttention)
        results = [_results(kernel(graphs), terms) for kernel in kernels]
        pairs = zip(*results, strict=True)
        errors += [(a - b).abs().max() / b.abs().max().clamp(min=_SMALLEST) for a, b in pairs]
    return float(torch.stack(errors).nan_to_num(torch.inf).max())


def _example(channels: int) -> tuple[RaggedGraphs, AttentionTerms]:
    """Returns random graphs and terms with all options; wide heads combine the rows of edges."""
    vectors = [torch.linalg.qr(torch.randn(n, n)).Q for n in _SIZES]
    node_graph = graph_of_rows(_SIZES, torch.device("cpu"))
    nodes = len(node_graph)
    # A path through the nodes of each graph.
    edge_index = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    edge_index = edge_index[:, node_graph[edge_index[0]] == node_graph[edge_index[1]]]
    graphs = RaggedGraphs(
        sizes=_SIZES,
        num_frequencies=_SIZES,
        eigenvalues=torch.rand(nodes) * 2,
        eigenvectors=torch.cat([u.flatten() for u in vectors]),
        edge_index=edge_index,
        degrees=torch.ones(nodes),
        node_graph=node_graph,
    )
    # Products that are exact: the slope of ψ at 0 would enlarge their rounding.
    queries, keys = torch.randint(-16, 17, (2, nodes, _HEADS, channels)) / 8
    edges, rows = edge_index.size(1), torch.randn(_EDGE_ROWS, _HEADS, channels)
    if channels > 16:
        coefficients = torch.randn(edges, _EDGE_ROWS)
        edge_terms = EdgeTerms(rows, torch.randn(edges, _HEADS), coefficients=coefficients)
    else:
        kinds = torch.arange(edges) % _EDGE_ROWS
        edge_terms = EdgeTerms(rows, torch.randn(_EDGE_ROWS, _HEADS), kinds=kinds)
    terms = AttentionTerms(
        phi1=ScalarMLP(_HEADS, _WIDTH),
        phi2=ScalarMLP(_HEADS, _WIDTH),
        values=torch.randn(nodes, _HEADS, channels),
        queries=queries,
        keys=keys,
        psi=signed_sqrt,
        edges=edge_terms,
    )
    return graphs, terms


def _moved(terms: AttentionTerms, device: torch.device) -> AttentionTerms:
    e = terms.edges
    given = (e.values, e.logits, e.kinds, e.coefficients)
    edges = EdgeTerms(*(x if x is None else x.to(device) for x in given))
    names = ("phi1", "phi2", "values", "queries", "keys")
    return replace(terms, edges=edges, **{name: getattr(terms, name).to(device) for name in names})


def _results(kernel: AttentionKernel, terms: AttentionTerms) -> list[Tensor]:
    """Returns the output and all gradients."""
    edges = terms.edges
    leaves = [terms.values, terms.queries, terms.keys, edges.values, edges.logits]
    given = [x.requires_grad_() for x in leaves if x is not None]
    parameters = [p for phi in (terms.phi1, terms.phi2) for p in cast(ScalarMLP, phi).parameters()]
    out = kernel.attend(terms)[0]
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out)
    gradients = torch.autograd.grad((out * weights).sum(), [*given, *parameters])
    return [out.detach(), *(g.detach() for g in gradients)]
