"""The score of a head: against loops over nodes, and on attention whose pattern is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from eigenformer.analysis import matches
from eigenformer.analysis.matches import (
    PATTERNS,
    Matches,
    agreement,
    best_heads,
    graph_patterns,
    lift,
    match_graph,
    match_graphs,
    match_table,
    untrained,
)
from eigenformer.data import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.models.eigenformer import Eigenformer

# A square with a tail, and a node by itself.
ADJACENCY = np.zeros((7, 7), np.float32)
for _i, _j in ((0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)):
    ADJACENCY[_i, _j] = ADJACENCY[_j, _i] = 1


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def somers(attention: np.ndarray, reference: np.ndarray) -> float:
    """Somers' D, node by node and pair by pair."""
    rows = []
    for i in range(len(reference)):
        signs = [
            np.sign(attention[i, j] - attention[i, k]) * np.sign(reference[i, j] - reference[i, k])
            for j, k in itertools.combinations(range(len(reference)), 2)
            if i not in (j, k) and reference[i, j] != reference[i, k]
        ]
        if signs:
            rows.append(np.mean(signs))
    return float(np.mean(rows))


def test_patterns() -> None:
    walks = graph_patterns(ADJACENCY)
    assert walks.shape == (len(PATTERNS), 7, 7)
    assert np.array_equal(walks[0], ADJACENCY)
    assert walks[1][0, 2] == 2  # both ways around the square
    assert walks[5][0].tolist() == [0, 1, 2, 1, 2, 3, 7]  # what cannot be reached is last


def test_the_score_is_somers_d(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    attention = softmax(rng.normal(size=(2, 3, 7, 7)))
    attention[0, 0] = attention[0, 0].round(1)  # with ties
    patterns = graph_patterns(ADJACENCY)
    scores = agreement(attention, patterns)
    for layer, head, number in np.ndindex(scores.shape):
        reference = patterns[number] * (-1 if PATTERNS[number] == "distance" else 1)
        expected = somers(attention[layer, head], reference)
        assert scores[layer, head, number] == pytest.approx(expected, abs=1e-6)
    monkeypatch.setattr(matches, "_CHUNK_ENTRIES", 1)  # row by row
    assert agreement(attention, patterns) == pytest.approx(scores)


def test_only_the_order_counts_and_not_the_diagonal() -> None:
    patterns = graph_patterns(ADJACENCY)
    heads = np.stack([softmax(patterns[k]) for k in range(5)] + [softmax(-patterns[5])])[None]
    scores = agreement(heads, patterns)[0]
    assert np.diag(scores) == pytest.approx(1)
    assert agreement(heads**0.1, patterns)[0] == pytest.approx(scores, abs=1e-6)
    heads[..., np.arange(7), np.arange(7)] = 0.9
    assert agreement(heads, patterns)[0] == pytest.approx(scores)
    assert agreement(np.full((1, 1, 7, 7), 1 / 7), patterns) == pytest.approx(0)
    far = agreement(softmax(patterns[5])[None, None], patterns)
    assert far[0, 0, 5] == pytest.approx(-1)


def test_a_pattern_that_says_nothing_has_no_score() -> None:
    scores = agreement(np.full((1, 2, 3, 3), 1 / 3), graph_patterns(np.zeros((3, 3))))
    assert np.isnan(scores).all()
    assert np.isnan(agreement(np.ones((1, 1, 1, 1)), graph_patterns(np.zeros((1, 1))))).all()


def test_lift_compares_with_looking_everywhere_alike() -> None:
    patterns = graph_patterns(ADJACENCY)
    uniform = np.full((1, 1, 7, 7), 1 / 7, np.float32)
    assert lift(uniform, patterns) == pytest.approx(1)
    neighbours = ADJACENCY[:6, :6] / ADJACENCY[:6, :6].sum(1, keepdims=True)
    small = graph_patterns(ADJACENCY[:6, :6])
    degrees = ADJACENCY[:6, :6].sum(1)
    found = lift(neighbours[None, None], small)[0, 0]
    assert found[0] == pytest.approx((5 / degrees).mean())
    assert found[5] < 1  # near


def test_the_best_head_is_one_that_acts() -> None:
    scores = np.zeros((1, 4, 6))
    lifts = np.ones((1, 4, 6))
    scores[0, :, 0] = (1.0, 0.8, 0.795, 0.5)
    lifts[0, :, 0] = (1.01, 1.5, 3.0, 9.0)
    scores[0, :, 5] = (0.3, -0.9, 0.2, 0.1)
    lifts[0, :, 5] = (0.5, 1.3, 0.5, 0.5)
    scores[0, :, 1] = (0.1, 0.2, 0.9, 0.3)  # none acts: then the order alone
    best = best_heads(scores, lifts)
    assert best[0] == (0, 2)  # as good as the best of those that act, and stronger
    assert best[5] == (0, 1)  # far before near
    assert best[1] == (0, 2)


def test_a_whole_set_and_one_graph_of_it() -> None:
    archive = pattern((4, 1, 1))
    dataset = GraphDataset(archive, memory_spectra(archive), "train")
    model = Eigenformer.from_preset("pattern", layers=2, phi_width=4).train()
    one = match_graph(model, dataset, 2)
    assert model.training
    assert one.attention.shape == one.patterns.shape
    assert one.attention.sum(-1) == pytest.approx(1, abs=1e-4)
    alone = GraphDataset(archive, dataset.spectra, indices=dataset.indices[2:3])
    same = match_graphs(model, alone)
    assert same.graphs == 1
    assert same.best() == one.heads
    layer, head = one.heads[0]
    assert same.score[layer, head, 0] == pytest.approx(one.scores[0])
    every = match_graphs(model, dataset)
    assert every.score.shape == (2, 8, 6)
    assert every.graphs == 4
    assert match_graphs(model, dataset, limit=2).graphs == 2


def test_a_head_of_the_neighbourhood_is_found() -> None:
    """φ₁(x) = x and φ₂(λ) = c (1 − λ) make one head attend by the adjacency."""
    archive = pattern((2, 1, 1))
    dataset = GraphDataset(archive, memory_spectra(archive), "train")
    model = Eigenformer.from_preset("pattern", layers=2, phi_width=4)
    attention = model.layers[1].attention
    with torch.no_grad():
        for phi, outer in ((attention.phi1, (1.0, 0.0)), (attention.phi2, (-900.0, 900.0))):
            # ρ(x) − ρ(−x) = x through both hidden layers of head 3.
            for tensor in (*phi.weights, *phi.biases):
                tensor[3] = 0
            phi.weights[0][3, :2, 0] = torch.tensor([1.0, -1.0])
            phi.weights[1][3, 0, 0] = phi.weights[1][3, 1, 1] = 1
            phi.weights[2][3, 0, :2] = torch.tensor([outer[0], -outer[0]])
            phi.biases[2][3] = outer[1]
    found = match_graphs(model, dataset)
    assert found.best()[0] == (1, 3)
    assert found.score[1, 3, 0] == pytest.approx(1)
    assert found.lift[1, 3, 0] > 1.5


def test_the_untrained_model_is_a_new_one_and_chance_goes_on_as_before() -> None:
    model = Eigenformer.from_preset("zinc", layers=1)
    state = torch.get_rng_state()
    first, second = untrained(model, seed=1), untrained(model, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.head.weight, second.head.weight)
    assert not torch.equal(first.head.weight, model.head.weight)


def test_the_table_names_the_best() -> None:
    score = np.zeros((2, 2, 6))
    score[1, 0] = 0.5
    score[1, 0, 5] = -0.75
    learned = Matches(score, np.full_like(score, 0.1), np.full_like(score, 2.0), 10)
    lines = match_table(learned, learned).splitlines()
    assert len(lines) == 8
    assert lines[2] == "| 1-hop | 1 | 0 | 0.500 ± 0.100 | 2.00 | 0.500 ± 0.100 | 2.00 |"
    assert lines[7].startswith("| distance | 1 | 0 | −0.750 ± 0.100 |")
