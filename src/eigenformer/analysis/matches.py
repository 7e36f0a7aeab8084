r"""Which heads look where a pattern of the graph points: k hops away, or by distance.

A head matches a pattern R as far as it ranks the nodes in the same order. For node i and two other
nodes j and l that the pattern tells apart, the head agrees if :math:`\alpha[i,j] > \alpha[i,l]`
where :math:`R[i,j] > R[i,l]`. The score is the share of pairs that agree minus the share that
disagree (Somers' D), for each node i, averaged over the nodes: 1 for the pattern's own order, 0 for
chance, −1 for its reverse. For a pattern of zeros and ones it is 2 AUC − 1.

It depends on the order alone, not on how sharp the attention is; pairs which the pattern does not
tell apart do not count; nor does the attention of a node to itself.

How strongly a head follows is told by its lift: the mean of R over where it looks, weighted by its
attention, relative to a head that looks everywhere alike. 1 is no preference. The best match is
sought among heads whose lift is at least 1.1 (of distance, or at most 1/1.1), where there are any:
an order without weight is no match. Of heads whose scores are within 0.01 of the best, the one
with the strongest lift is named.

The patterns are the powers :math:`A, A^2, …, A^5`, which count walks, and the shortest-path
distance with its sign turned: near before far. A head may also look far before near; of distance
the size of the score counts, its sign says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from eigenformer.analysis.adjacency import adjacency_matrices, spread
from eigenformer.data.batching import GraphDataset
from eigenformer.models import build_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.reporting import Reporter
from eigenformer.training.predicting import predict_batches

HOPS = 5
PATTERNS = (*(f"{k}-hop" for k in range(1, HOPS + 1)), "distance")
"""What heads are compared with, in this order everywhere."""

LEAST_LIFT = 1.1
"""Heads below this prefer as good as nothing."""

# Scores that differ by less are equally good.
_AS_GOOD = 0.01
# Entries of the arrays that are held at once.
_CHUNK_ENTRIES = 1 << 24
_BATCH = 32


@dataclass(frozen=True, eq=False)
class Matches:
    """How well each head matches each pattern, over a set of graphs.

    Args:
        score: ``[layers, heads, patterns]``, the mean over graphs.
        deviation: The same, the standard deviation over graphs.
        lift: The same, the mean over graphs.
        graphs: How many.
    """

    score: np.ndarray
    deviation: np.ndarray
    lift: np.ndarray
    graphs: int

    def best(self) -> list[tuple[int, int]]:
        """Layer and head of the best match of each pattern."""
        return best_heads(self.score, self.lift)


@dataclass(frozen=True, eq=False)
class GraphMatches:
    """One graph: its patterns, and the head that matches each best.

    Args:
        patterns: ``[patterns, n, n]``, walks of 1 to 5 steps, then distances.
        heads: Layer and head for each pattern.
        scores: Of these heads.
        lifts: Of these heads.
        attention: ``[patterns, n, n]``, of these heads.
    """

    patterns: np.ndarray
    heads: list[tuple[int, int]]
    scores: np.ndarray
    lifts: np.ndarray
    attention: np.ndarray


def match_graph(model: Eigenformer, dataset: GraphDataset, index: int) -> GraphMatches:
    """The best heads for one graph of a dataset."""
    ((adjacency, attention),) = _attention(model, dataset, np.array([index]))
    patterns = graph_patterns(adjacency)
    scores, lifts = agreement(attention, patterns), lift(attention, patterns)
    heads = best_heads(scores, lifts)
    chosen = tuple(np.array(heads).T)
    which = (*chosen, np.arange(len(PATTERNS)))
    return GraphMatches(patterns, heads, scores[which], lifts[which], attention[chosen])


def match_graphs(
    model: Eigenformer,
    dataset: GraphDataset,
    limit: int | None = None,
    reporter: Reporter | None = None,
) -> Matches:
    """The scores of all heads over a set of graphs; the time grows with the cube of their size.

    Args:
        model: Any.
        dataset: Its graphs.
        limit: How many to take, evenly from all of them (default: all).
        reporter: Whom to tell how far it is.
    """
    chosen = spread(len(dataset), limit)
    scores, lifts = [], []
    with (reporter or Reporter()).step("matches", len(chosen)) as step:
        for adjacency, attention in _attention(model, dataset, chosen):
            patterns = graph_patterns(adjacency)
            scores.append(agreement(attention, patterns))
            lifts.append(lift(attention, patterns))
            step.advance(1)
    # A graph says nothing of a pattern that tells none of its nodes apart.
    known, strength = np.ma.masked_invalid(scores), np.ma.masked_invalid(lifts)
    means = (known.mean(0), known.std(0), strength.mean(0))
    score, deviation, lifts_mean = (part.filled(np.nan) for part in means)
    return Matches(score, deviation, lifts_mean, len(chosen))


def untrained(model: Eigenformer, seed: int = 0) -> Eigenformer:
    """The same architecture with new weights: what there is before anything is learned."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        new = cast(Eigenformer, build_model(model.config, model.backend))
        return new.to(next(model.parameters()))


def match_table(learned: Matches, new: Matches) -> str:
    """The best head for each pattern as a Markdown table, beside the best of an untrained model.

    Args:
        learned: Of the trained model.
        new: Of one with new weights.
    """
    lines = [
        "| pattern | layer | head | score | lift | untrained: score | lift |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, name in enumerate(PATTERNS):
        (layer, head), other = learned.best()[number], new.best()[number]
        figures = [
            f"{found.score[at]:.3f} ± {found.deviation[at]:.3f} | {found.lift[at]:.2f}"
            for found, at in ((learned, (layer, head, number)), (new, (*other, number)))
        ]
        row = " | ".join([name, str(layer), str(head), *figures])
        lines.append(f"| {row} |".replace("-0", "−0"))
    return "\n".join(lines)


def graph_patterns(adjacency: np.ndarray) -> np.ndarray:
    """Walks of 1 to 5 steps, and the distance: ``[patterns, n, n]``.

    Nodes that cannot be reached are further away than any other.
    """
    from scipy.sparse.csgraph import shortest_path

    n = len(adjacency)
    powers = [adjacency.astype(np.float64)]
    for _ in range(HOPS - 1):
        powers.append(powers[-1] @ powers[0])
    distance = shortest_path(adjacency, unweighted=True)
    return np.stack([*powers, np.where(np.isinf(distance), n, distance)])


def agreement(attention: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """The score of every head for every pattern; NaN for a pattern that tells no nodes apart.

    Args:
        attention: ``[layers, heads, n, n]``.
        patterns: ``[patterns, n, n]``, those of :func:`graph_patterns`.
    """
    layers, heads, n, _ = attention.shape
    nearer = np.concatenate([patterns[:-1], -patterns[-1:]])  # near before far
    looks, says = attention.reshape(-1, n, n).swapaxes(0, 1), nearer.swapaxes(0, 1)
    step = max(1, _CHUNK_ENTRIES // (layers * heads * n**2))
    rows = []
    for start in range(0, n, step):
        nodes = np.arange(start, min(start + step, n))
        above = (looks[nodes, :, :, None] > looks[nodes, :, None]).astype(np.float32)
        order = np.sign(says[nodes, :, :, None] - says[nodes, :, None]).astype(np.float32)
        here = nodes - start
        order[here, :, nodes] = order[here, :, :, nodes] = 0  # a node itself takes no part
        # Each pair of nodes is met twice, but counts for or against once: where it is "above".
        flat = (len(nodes), -1, n**2)
        agrees = above.reshape(flat) @ order.reshape(flat).swapaxes(1, 2)
        with np.errstate(invalid="ignore"):
            rows.append(2 * agrees / np.abs(order).sum((2, 3))[:, None])
    scores = np.ma.masked_invalid(np.concatenate(rows)).mean(0).filled(np.nan)
    return scores.reshape(layers, heads, len(patterns))


def lift(attention: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """How strongly every head prefers what a pattern says more of, see above.

    Takes what :func:`agreement` takes.
    """
    others = 1 - np.eye(len(patterns[0]), dtype=np.float32)
    looks, says = attention * others, patterns * others
    with np.errstate(invalid="ignore", divide="ignore"):
        looks = looks / looks.sum(-1, keepdims=True)
        alike = says.sum(-1) / others.sum(-1)
        rows = np.einsum("lhij,pij->lhpi", looks, says) / alike
    return np.ma.masked_invalid(rows).mean(-1).filled(np.nan)


def best_heads(scores: np.ndarray, lifts: np.ndarray) -> list[tuple[int, int]]:
    """Layer and head of the best match of each pattern; of distance, in either direction.

    Args:
        scores: ``[layers, heads, patterns]``.
        lifts: The same.
    """
    worth = np.nan_to_num(scores, nan=-1.0)
    worth[..., -1] = np.abs(worth[..., -1])
    strength = np.log(np.nan_to_num(lifts, nan=1.0).clip(1e-6))
    strength[..., -1] = np.abs(strength[..., -1])
    acts = strength >= np.log(LEAST_LIFT)
    worth[~acts & acts.any((0, 1))] = -np.inf
    strength[worth < worth.max((0, 1)) - _AS_GOOD] = -np.inf
    places = strength.reshape(-1, worth.shape[-1]).argmax(0)
    layers, heads = np.unravel_index(places, worth.shape[:2])
    return list(zip(layers.tolist(), heads.tolist(), strict=True))


def _attention(
    model: Eigenformer, dataset: GraphDataset, chosen: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Adjacency ``[n, n]`` and attention ``[layers, heads, n, n]`` of each graph."""
    graphs = GraphDataset(dataset.archive, dataset.spectra, indices=dataset.indices[chosen])
    for found in predict_batches(model, graphs, _BATCH, return_attention=True):
        for number, graph in enumerate(found.places):
            stack = torch.stack([layer[number] for layer in found.attention]).numpy()
            size = stack.shape[-1]
            yield adjacency_matrices(dataset.archive, graph[None], size)[0], stack
