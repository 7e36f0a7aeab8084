r"""Which heads follow a pattern of the graph: nodes k hops away, or the distance.

A head matches a pattern R if it ranks the nodes in the same order. Take a node i and two other
nodes j and l with :math:`R[i,j] > R[i,l]`. The head agrees with the pattern if
:math:`\alpha[i,j] > \alpha[i,l]`. The score is the share of pairs that agree minus the share that
disagree (Somers' D), for each node i, averaged over the nodes: 1 for the pattern's own order, 0 for
chance, −1 for the reverse order. For a pattern of zeros and ones it is 2 AUC − 1.

The score depends only on the order, not on how sharp the attention is. Pairs with equal values of
the pattern do not count, and neither does the attention of a node to itself.

The lift of a head measures how strongly it follows a pattern: the mean of R weighted by the head's
attention, relative to uniform attention. A lift of 1 means no preference. The best match is chosen
among heads with a lift of at least 1.1 (for the distance: or at most 1/1.1), if there are any,
because the right order with negligible weight is not a match. Among heads whose scores are within
0.01 of the best, the one with the strongest lift is chosen.

The patterns are the powers :math:`A, A^2, …, A^5`, which count walks, and the negated shortest-path
distance: near before far. A head may also look far before near. For the distance, the absolute
value of the score counts; its sign tells the direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import torch

from eigenformer.analysis.adjacency import adjacency_matrices, evenly_spaced
from eigenformer.data.batching import GraphDataset
from eigenformer.models import Model, build_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.reporting import Reporter
from eigenformer.training.predicting import predict_batches

M = TypeVar("M", bound=Model)

HOPS = 5
PATTERNS = (*(f"{k}-hop" for k in range(1, HOPS + 1)), "distance")
"""The patterns that heads are compared with, always in this order."""

LEAST_LIFT = 1.1
"""Heads with a lower lift have practically no preference."""

# Scores that differ by less than this count as equal.
_AS_GOOD = 0.01
# The number of array entries held in memory at once.
_CHUNK_ENTRIES = 1 << 24
_BATCH = 32


@dataclass(frozen=True, eq=False)
class Matches:
    """How well each head matches each pattern, over a set of graphs.

    Args:
        score: ``[layers, heads, patterns]``, the mean over graphs.
        deviation: ``[layers, heads, patterns]``, the score's standard deviation over graphs.
        lift: ``[layers, heads, patterns]``, the mean over graphs.
        graphs: The number of graphs.
    """

    score: np.ndarray
    deviation: np.ndarray
    lift: np.ndarray
    graphs: int

    def best(self) -> list[tuple[int, int]]:
        """Returns the layer and head that match each pattern best."""
        return best_heads(self.score, self.lift)


@dataclass(frozen=True, eq=False)
class GraphMatches:
    """The patterns of one graph, and the head that matches each best.

    Args:
        patterns: ``[patterns, n, n]``, walks of 1 to 5 steps, then distances.
        heads: The layer and head for each pattern.
        scores: The scores of these heads.
        lifts: The lifts of these heads.
        attention: ``[patterns, n, n]``, the attention of these heads.
    """

    patterns: np.ndarray
    heads: list[tuple[int, int]]
    scores: np.ndarray
    lifts: np.ndarray
    attention: np.ndarray


def match_graph(model: Eigenformer, dataset: GraphDataset, index: int) -> GraphMatches:
    """Returns the best heads for one graph of a dataset."""
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
    """Scores all heads over a set of graphs. The time grows with the cube of the graph size.

    Args:
        model: The model.
        dataset: The graphs.
        limit: The number of graphs to use, evenly spread over the dataset (default: all).
        reporter: Receives the progress.
    """
    chosen = evenly_spaced(len(dataset), limit)
    scores, lifts = [], []
    with (reporter or Reporter()).step("matches", len(chosen)) as step:
        for adjacency, attention in _attention(model, dataset, chosen):
            patterns = graph_patterns(adjacency)
            scores.append(agreement(attention, patterns))
            lifts.append(lift(attention, patterns))
            step.advance(1)
    # A graph does not count for a pattern that tells none of its nodes apart.
    known, strength = np.ma.masked_invalid(scores), np.ma.masked_invalid(lifts)
    means = (known.mean(0), known.std(0), strength.mean(0))
    score, deviation, lifts_mean = (part.filled(np.nan) for part in means)
    return Matches(score, deviation, lifts_mean, len(chosen))


def untrained(model: M, seed: int = 0) -> M:
    """Returns a model of the same architecture with new weights, as before training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        new = cast(M, build_model(model.config, model.backend))
        return new.to(next(model.parameters()))


def match_table(learned: Matches, new: Matches) -> str:
    """Returns a Markdown table of the best head per pattern, trained and untrained.

    Args:
        learned: The matches of the trained model.
        new: The matches of a model with new weights.
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
    """Returns the number of walks of 1 to 5 steps, and the distance: ``[patterns, n, n]``.

    Unreachable nodes are further away than all others.
    """
    from scipy.sparse.csgraph import shortest_path

    n = len(adjacency)
    powers = [adjacency.astype(np.float64)]
    for _ in range(HOPS - 1):
        powers.append(powers[-1] @ powers[0])
    distance = shortest_path(adjacency, unweighted=True)
    return np.stack([*powers, np.where(np.isinf(distance), n, distance)])


def agreement(attention: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Returns the score of each head and pattern; NaN if the pattern tells no nodes apart.

    Args:
        attention: ``[layers, heads, n, n]``.
        patterns: ``[patterns, n, n]``, from :func:`graph_patterns`.
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
        order[here, :, nodes] = order[here, :, :, nodes] = 0  # a node itself does not count
        # Each pair of nodes occurs twice, but counts only once: when it is "above".
        flat = (len(nodes), -1, n**2)
        agrees = above.reshape(flat) @ order.reshape(flat).swapaxes(1, 2)
        with np.errstate(invalid="ignore"):
            rows.append(2 * agrees / np.abs(order).sum((2, 3))[:, None])
    scores = np.ma.masked_invalid(np.concatenate(rows)).mean(0).filled(np.nan)
    return scores.reshape(layers, heads, len(patterns))


def lift(attention: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Returns how strongly each head follows each pattern; see the top of this module.

    The arguments are those of :func:`agreement`.
    """
    others = 1 - np.eye(len(patterns[0]), dtype=np.float32)
    looks, says = attention * others, patterns * others
    with np.errstate(invalid="ignore", divide="ignore"):
        looks = looks / looks.sum(-1, keepdims=True)
        alike = says.sum(-1) / others.sum(-1)
        rows = np.einsum("lhij,pij->lhpi", looks, says) / alike
    return np.ma.masked_invalid(rows).mean(-1).filled(np.nan)


def best_heads(scores: np.ndarray, lifts: np.ndarray) -> list[tuple[int, int]]:
    """Returns the layer and head that match each pattern best; distance in either direction.

    Args:
        scores: ``[layers, heads, patterns]``.
        lifts: ``[layers, heads, patterns]``.
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
    """Yields the adjacency ``[n, n]`` and attention ``[layers, heads, n, n]`` of each graph."""
    graphs = GraphDataset(dataset.archive, dataset.spectra, indices=dataset.indices[chosen])
    for found in predict_batches(model, graphs, _BATCH, return_attention=True):
        for number, graph in enumerate(found.places):
            stack = torch.stack([layer[number] for layer in found.attention]).numpy()
            size = stack.shape[-1]
            yield adjacency_matrices(dataset.archive, graph[None], size)[0], stack
