"""The paper's Proposition 1, constructively: φ₁ and φ₂ are set, not trained."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch
from networkx.generators.atlas import graph_atlas_g
from torch_geometric.data import Batch

from eigenformer import LaplacianSpectrum, ScalarMLP
from eigenformer.kernels import AttentionTerms, LiteralAttention, make_kernel
from eigenformer.ragged import RaggedGraphs
from tests.graphs import dense_adjacency, from_networkx, named_graphs

EPSILON = 0.05


def interpolating(points: torch.Tensor, values: torch.Tensor) -> ScalarMLP:
    """A two-layer network that is piecewise linear through the given points, flat outside."""
    slopes = torch.cat([points.new_zeros(1), values.diff() / points.diff(), points.new_zeros(1)])
    phi = ScalarMLP(1, len(points)).double()
    phi.load_state_dict(
        {
            "weights.0": torch.ones(1, len(points), 1),
            "biases.0": -points[None],  # ρ(x - t)
            "weights.1": torch.eye(len(points))[None],  # which is not negative: passes unchanged
            "biases.1": torch.zeros(1, len(points)),
            "weights.2": slopes.diff()[None, None],
            "biases.2": values[:1][None],
        }
    )
    return phi


@pytest.mark.parametrize("theta", [[0.0, 1.0], [0.3, -1.0, 0.5, 2.0], [0, 0, 0, 0, 0, 1.0]])
@pytest.mark.parametrize("name", named_graphs())
def test_scores_are_powers_of_the_adjacency(name, theta):
    data = named_graphs(torch.float64)[name]
    kernel = LiteralAttention(RaggedGraphs.from_data(data))
    scores = kernel.scores(lambda v: sum(t * (1 - v) ** k for k, t in enumerate(theta)), heads=1)
    adjacency = dense_adjacency(data)
    # A_norm = I − L, so that an isolated node, with L = 0, counts as its own neighbour.
    adjacency += torch.diag((adjacency.sum(1) == 0).double())
    scale = adjacency.sum(1).rsqrt()
    adjacency = scale[:, None] * adjacency * scale
    expected = sum(t * torch.matrix_power(adjacency, k) for k, t in enumerate(theta))
    assert torch.allclose(scores[0, 0], expected, atol=1e-12)


@pytest.fixture(scope="module")
def small_graphs() -> list[nx.Graph]:
    """All connected graphs of up to 6 nodes."""
    return [g for g in graph_atlas_g() if 1 <= len(g) <= 6 and nx.is_connected(g)]


@pytest.mark.parametrize("backend", ["literal", "torch"])
def test_another_choice_separates_all_distances(small_graphs, backend):
    assert len(small_graphs) == 143
    transform = LaplacianSpectrum(dtype=torch.float64)
    batch = Batch.from_data_list([transform(from_networkx(g)) for g in small_graphs])
    graphs = RaggedGraphs.from_data(batch)

    def resolvent(eigenvalues):  # Σ_k ε^k (1−λ)^k
        return 1 / (1 - EPSILON * (1 - eigenvalues))

    scores = LiteralAttention(graphs).scores(resolvent, heads=1)[0]
    by_distance: dict[int, list[float]] = {}
    pairs = [(b, i, j, d) for b, g in enumerate(small_graphs) for i, j, d in distances(g)]
    for b, i, j, distance in pairs:
        by_distance.setdefault(distance, []).append(float(scores[b, i, j]))
    ranges = [(min(by_distance[d]), max(by_distance[d])) for d in sorted(by_distance)]
    assert len(ranges) == 6
    for (low, _), (_, high) in itertools.pairwise(ranges):
        assert high < low  # the value ranges of different distances are disjoint

    # φ₁ runs through those ranges; any function of the distance can be had, here an odd one.
    wanted = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0, -2.0]).double()
    points = torch.tensor([x for r in reversed(ranges) for x in r]).double()
    points[0] *= 0.99  # the range of the largest distance is a single value
    phi1 = interpolating(points, wanted.flip(0).repeat_interleave(2))
    terms = AttentionTerms(phi1, resolvent, values=torch.ones(batch.num_nodes, 1, 1).double())
    _, attention = make_kernel(graphs, backend).attend(terms, return_attention=True)
    attention = [a.detach() for a in attention]
    for b, i, j, distance in pairs:
        logit = attention[b][0, i, j].log() - attention[b][0, i, i].log() + wanted[0]
        assert float(logit) == pytest.approx(float(wanted[distance]), abs=1e-6)


def distances(g: nx.Graph) -> list[tuple[int, int, int]]:
    g = nx.convert_node_labels_to_integers(g)
    lengths = dict(nx.all_pairs_shortest_path_length(g))
    return [(i, j, d) for i, row in lengths.items() for j, d in row.items()]
