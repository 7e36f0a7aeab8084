"""Node potentials: the diagonal of a learned filter, and what it must not depend on."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer
from eigenformer.frequencies import sample_frequencies
from eigenformer.kernels import make_kernel
from eigenformer.node_potentials import NodePotentials
from eigenformer.ragged import RaggedGraphs
from eigenformer.testing import basis_error, batch_error, permutation_error, sign_error
from tests.graphs import from_networkx, graph, named_graphs, small_config


def literal(module: NodePotentials, graphs: RaggedGraphs) -> torch.Tensor:
    """Σ_k u_k[i]² φ(λ_k), node by node; (φ(0) + φ(2)) / 2 for a node without neighbours."""
    edge = graphs.eigenvalues.new_tensor([0.0, 2.0]).expand(module.phi.heads, 2)
    rows, entry, frequency = [], 0, 0
    for n, k in zip(graphs.sizes, graphs.num_frequencies, strict=True):
        u = graphs.eigenvectors[entry : entry + n * k].view(n, k)
        values = graphs.eigenvalues[frequency : frequency + k]
        for i in range(n):
            if graphs.degrees[len(rows)] == 0:
                rows.append(module.phi(edge).mean(1))
                continue
            rows.append((u[i].square() * module.phi(values.expand(module.phi.heads, k))).sum(1))
        entry, frequency = entry + n * k, frequency + k
    return torch.stack(rows)


def test_are_the_diagonal_of_a_filter_with_all_gradients(dtype):
    torch.manual_seed(0)
    graphs = RaggedGraphs.from_data(Batch.from_data_list(list(named_graphs(dtype).values())), dtype)
    module = NodePotentials(8, potentials=5, width=7).to(dtype)
    weight = torch.randn(graphs.num_nodes, 5, dtype=dtype)
    found = []
    for out in (module.potentials(make_kernel(graphs)), literal(module, graphs)):
        gradients = torch.autograd.grad((out * weight).sum(), list(module.phi.parameters()))
        found.append([out, *gradients])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for mine, oracle in zip(*found, strict=True):
        assert (mine - oracle).abs().max() <= tolerance * oracle.abs().max().clamp(min=1)


def test_atoms_without_bonds_are_no_outliers():
    """Batch norm mapped the potentials of methane to 39 deviations, and its logS of -0.9 to 37."""
    torch.manual_seed(0)
    module = NodePotentials(4, potentials=20)
    chains = [nx.path_graph(n) for n in range(3, 10)]
    trees = [nx.full_rary_tree(2, n) for n in range(5, 15)]
    molecules = [from_networkx(g) for g in (*chains, *trees, *map(nx.cycle_graph, (5, 6, 6)))]
    seen = make_kernel(RaggedGraphs.from_data(Batch.from_data_list(molecules)))
    for _ in range(200):
        module(torch.zeros(seen.graphs.num_nodes, 4), seen)
    module.eval()

    def normed(*graphs: Data) -> torch.Tensor:
        kernel = make_kernel(RaggedGraphs.from_data(Batch.from_data_list(list(graphs))))
        return module.norm(module.potentials(kernel)).detach()

    atom, pair = graph(1, []), graph(2, [(0, 1), (1, 0)])
    torch.testing.assert_close(normed(atom), normed(pair)[:1], atol=1e-3, rtol=0)
    salt = graph(3, [(0, 1), (1, 0)])  # two atoms with a bond, and an ion
    torch.testing.assert_close(normed(salt), normed(pair)[[0, 0, 0]], atol=1e-3, rtol=0)
    assert normed(atom).abs().max() < 3 * normed(*molecules).abs().max()


def test_frequencies_left_out_take_no_part():
    torch.manual_seed(0)
    data = from_networkx(nx.path_graph(9))
    graphs = RaggedGraphs.from_data(data)
    module = NodePotentials(4, potentials=3)
    drawn = RaggedGraphs.from_data(sample_frequencies(data, 0.5, seeds=[3]))
    kept = drawn.frequency_weights.bool()
    u = graphs.eigenvectors.view(9, 9)[:, kept]
    expected = u.square() @ module.phi(graphs.eigenvalues[kept].expand(3, -1)).t()
    torch.testing.assert_close(module.potentials(make_kernel(drawn)), expected)


@pytest.mark.parametrize("local_branch", [None, "gine", "gated"])
def test_symmetries_hold(dtype, local_branch):
    torch.manual_seed(0)
    config = small_config(node_potentials=6, local_branch=local_branch, head_layers=2)
    model = Eigenformer(config).to(dtype)
    graphs = named_graphs(dtype)
    model(Batch.from_data_list(list(graphs.values())))  # batch norms with other statistics
    model.eval()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert batch_error(model, list(graphs.values())) < tolerance
    for name, data in graphs.items():
        for error in (permutation_error, sign_error, basis_error):
            assert error(model, data) < tolerance, name


def test_tell_nodes_apart_where_attention_cannot():
    """K4 and a hexagon with its long diagonals: equal nodes, all of degree 3, no edge features."""
    torch.manual_seed(0)
    edges = [(i, j) for i in range(4) for j in range(i)]
    edges += [(4 + i, 4 + (i + 1) % 6) for i in range(6)] + [(4 + i, 7 + i) for i in range(3)]
    data = graph(10, [*edges, *((v, u) for u, v in edges)])
    data.x = torch.zeros_like(data.x)

    def spread(**options: int) -> float:
        model = Eigenformer(small_config(pooling="none", edge_encoder=None, **options)).eval()
        return float(model(data).detach().std())

    assert spread() < 1e-6
    assert spread(node_potentials=6) > 1e-4


def test_reset_parameters_starts_again():
    module = NodePotentials(4, potentials=3)
    before = {name: value.clone() for name, value in module.named_parameters()}
    module.reset_parameters()
    for name, value in module.named_parameters():
        assert name.startswith("norm") or not torch.equal(before[name], value), name
