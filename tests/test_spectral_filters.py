"""Spectral filters: U φ(Λ) Uᵀ on the nodes, and what they must not depend on."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch

from eigenformer import Eigenformer, EigenformerLayer, LaplacianSpectrum
from eigenformer.frequencies import sample_frequencies
from eigenformer.kernels import AttentionKernel, make_kernel
from eigenformer.kernels.native import load
from eigenformer.ragged import RaggedGraphs
from eigenformer.spectral_filters import SpectralFilters
from eigenformer.testing import basis_error, batch_error, permutation_error, sign_error
from tests.graphs import graph, named_graphs, random_batch, random_graph, small_config

BACKENDS = ["literal", "torch", *(["native"] if load()[0] is not None else [])]


def literal(module: SpectralFilters, x: torch.Tensor, graphs: RaggedGraphs) -> torch.Tensor:
    """W ‖_c Σ_j Σ_k u_k[i] u_k[j] φ^c(λ_k) x_j, pair by pair."""
    rows, entry, frequency, node = [], 0, 0, 0
    filters = module.phi.heads
    for n, k in zip(graphs.sizes, graphs.num_frequencies, strict=True):
        u = graphs.eigenvectors[entry : entry + n * k].view(n, k)
        phi = module.phi(graphs.eigenvalues[frequency : frequency + k].expand(filters, k))
        if graphs.frequency_weights is not None:
            phi = phi * graphs.frequency_weights[frequency : frequency + k]
        groups = x[node : node + n].view(n, filters, -1)
        for i in range(n):
            weights = (phi[:, None] * u[i] * u).sum(-1)  # of filter c and node j
            rows.append(torch.einsum("cj,jcd->cd", weights, groups).flatten())
        node, entry, frequency = node + n, entry + n * k, frequency + k
    return module.out(torch.stack(rows))


def spectra(dtype: torch.dtype) -> dict[str, RaggedGraphs]:
    graphs = list(named_graphs(dtype).values())
    some = Batch.from_data_list(graphs)
    lowest = [LaplacianSpectrum(num_frequencies=3, dtype=dtype)(data.clone()) for data in graphs]
    batches = {
        "full": some,
        "sample": sample_frequencies(some, 0.5, seeds=range(len(graphs))),
        "lowest": Batch.from_data_list(lowest),
    }
    return {name: RaggedGraphs.from_data(batch, dtype) for name, batch in batches.items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["full", "sample", "lowest"])
def test_follow_their_formula_with_all_gradients(dtype, case, backend):
    torch.manual_seed(0)
    graphs = spectra(dtype)[case]
    module = SpectralFilters(15, filters=5, width=7).to(dtype)
    x = torch.randn(graphs.num_nodes, 15, dtype=dtype, requires_grad=True)
    weight = torch.randn(graphs.num_nodes, 15, dtype=dtype)
    kernel = make_kernel(graphs, backend)  # native is for float32, and torch takes its place
    found = []
    for out in (module(x, kernel), literal(module, x, graphs)):
        gradients = torch.autograd.grad((out * weight).sum(), [x, *module.parameters()])
        found.append([out, *gradients])
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for mine, oracle in zip(*found, strict=True):
        assert (mine - oracle).abs().max() <= tolerance * oracle.abs().max().clamp(min=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_layers_are_evaluated_together(backend):
    graphs = RaggedGraphs.from_data(random_batch([5, 9, 2]))
    kernel, x = make_kernel(graphs, backend), torch.randn(16, 8)
    modules = [SpectralFilters(8, 4) for _ in range(3)]
    together = kernel.importances([m.phi for m in modules], 4)
    for module, importance in zip(modules, together, strict=True):
        assert importance.shape == (16, 4)
        torch.testing.assert_close(module(x, kernel, importance), module(x, kernel))
    assert kernel.importances([], 4) == []


def test_the_model_evaluates_all_layers_once_and_the_layers_use_it(monkeypatch):
    model, batch = Eigenformer(small_config(filters=4)).eval(), random_batch([5, 9])
    expected, calls = model(batch), []
    importances = AttentionKernel.importances

    def counted(self, functions, heads):
        calls.append(len(functions))
        return importances(self, functions, heads)

    model.backend = "literal"
    monkeypatch.setattr(AttentionKernel, "importances", counted)
    torch.testing.assert_close(model(batch), expected, rtol=1e-4, atol=1e-5)
    assert calls == [len(model.layers)]


@pytest.mark.parametrize("degree_scaler", [True, False])
def test_the_layer_adds_them_before_the_first_norm(degree_scaler):
    batch, x = random_batch([5, 6]), torch.randn(11, 8)
    layer = EigenformerLayer(8, heads=2, phi_width=4, filters=4, degree_scaler=degree_scaler)
    inputs = []
    layer.norm1.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    layer(x, batch)
    kernel = make_kernel(RaggedGraphs.from_data(batch))
    expected = x + layer.attention(x, batch) + layer.filters(x, kernel)
    torch.testing.assert_close(inputs[0], expected)


@pytest.mark.parametrize("last_norm", [True, False])
def test_symmetries_hold(dtype, last_norm):
    torch.manual_seed(0)
    config = small_config(filters=8, node_potentials=6, last_norm=last_norm)
    model = Eigenformer(config).to(dtype)
    graphs = named_graphs(dtype)
    model(Batch.from_data_list(list(graphs.values())))  # batch norms with other statistics
    model.eval()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert batch_error(model, list(graphs.values())) < tolerance
    for name, data in graphs.items():
        for error in (permutation_error, sign_error, basis_error):
            assert error(model, data) < tolerance, name


def test_count_neighbours_which_a_softmax_average_cannot():
    """φ(λ) = 1 - λ is the normalised adjacency: of equal nodes, it tells apart paths and rings."""
    data = graph(7, [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (6, 3)])
    module = SpectralFilters(1, 1, width=2)
    with torch.no_grad():
        for parameter in module.phi.parameters():
            parameter.zero_()
        module.phi.weights[0][0] = 1.0
        module.phi.weights[1][0] = torch.eye(2)
        module.phi.weights[2][0, 0] = torch.tensor([-1.0, 0.0])
        module.phi.biases[2][0] = 1.0
    kernel = make_kernel(RaggedGraphs.from_data(data))
    found = module.filtered(torch.ones(7, 1), kernel)[:, 0].detach()
    half = 0.5**0.5
    torch.testing.assert_close(found, torch.tensor([half, 2 * half, half, 1, 1, 1, 1]))


def test_same_results_under_autocast_but_for_the_linear_map():
    kernel = make_kernel(RaggedGraphs.from_data(random_graph(9)))
    module, x = SpectralFilters(8, 4), torch.randn(9, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = module.filtered(x, kernel)
    assert torch.equal(found, module.filtered(x, kernel))


def test_reset_parameters_starts_again():
    layer = EigenformerLayer(8, heads=2, filters=4)
    before = {name: value.clone() for name, value in layer.filters.named_parameters()}
    layer.reset_parameters()
    for name, value in layer.filters.named_parameters():
        assert not torch.equal(before[name], value), name


def test_dropout_acts_only_in_training():
    kernel = make_kernel(RaggedGraphs.from_data(random_graph(5)))
    module, x = SpectralFilters(8, 4, dropout=0.5), torch.randn(5, 8)
    assert not torch.equal(module(x, kernel), module(x, kernel))
    module.eval()
    assert torch.equal(module(x, kernel), module(x, kernel))


def test_filters_share_the_channels_evenly():
    with pytest.raises(ValueError, match="filters must divide channels, got 3 and 8"):
        SpectralFilters(8, 3)
