"""Linear pieces in compiled code: those of PyTorch in float64, with gradients; bad inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenformer.kernels.native.networks import linear_pieces, linear_pieces_backward
from eigenformer.scalar_mlp import LinearPieces, ScalarMLP
from eigenformer.scalar_mlp import linear_pieces as torch_pieces

Parameters = tuple[list[Tensor], list[Tensor]]


def parameters(modules: list[ScalarMLP]) -> Parameters:
    weights = [x for module in modules for x in module.weights]
    return weights, [x for module in modules for x in module.biases]


def in_double(modules: list[ScalarMLP], low: Tensor, high: Tensor) -> LinearPieces:
    layers = range(len(modules[0].weights))
    weights = [torch.cat([m.weights[layer] for m in modules]).double() for layer in layers]
    biases = [torch.cat([m.biases[layer] for m in modules]).double() for layer in layers]
    return torch_pieces(weights, biases, low.double(), high.double())


def tents(depth: int) -> ScalarMLP:
    """2^depth pieces on [0, 1] from two units a layer: x → 1 - |2x - 1|, again and again."""
    network = ScalarMLP(1, 2, depth)
    with torch.no_grad():
        for layer, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            out = torch.tensor([[2.0], [4.0]]) if layer < depth else torch.tensor([[1.0]])
            weight.copy_((out if layer == 0 else out * torch.tensor([[1.0, -1.0]]))[None])
            bias.copy_(torch.tensor([0.0, -2.0])[: len(out)][None])
    return network


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("heads", "width", "depth", "modules"),
    [(1, 1, 1, 1), (3, 28, 1, 2), (2, 1, 2, 3), (8, 28, 2, 12), (3, 13, 3, 2), (2, 5, 4, 1),
     (2, 128, 2, 1)],
)  # fmt: skip
def test_pieces_and_gradients(
    heads: int, width: int, depth: int, modules: int, threads: int
) -> None:
    torch.manual_seed(heads * width)
    torch.set_num_threads(threads)
    networks = [ScalarMLP(heads, width, depth) for _ in range(modules)]
    low = -torch.rand(heads * modules) - 0.1
    high = low + torch.rand(heads * modules) * 3
    leaves = [x for part in parameters(networks) for x in part]
    found = linear_pieces(*parameters(networks), low, high, modules)
    exact = in_double(networks, low, high)
    for a, b in zip(found, exact, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-7, atol=2e-7)
    d = [torch.randn_like(x) for x in found[1:]]
    ours = torch.autograd.grad(found[1:], leaves, d)
    theirs = torch.autograd.grad(exact[1:], leaves, [x.double() for x in d])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_more_pieces_than_expected() -> None:
    network = tents(6)
    ends = torch.zeros(1), torch.ones(1)
    pieces = LinearPieces(*linear_pieces(*parameters([network]), *ends, 1))
    assert pieces.slopes.shape == (1, 64)
    x = torch.rand(1, 1000)
    torch.testing.assert_close(pieces(x), network(x), rtol=0, atol=1e-5)
    assert torch.equal(pieces.knots[0], torch.arange(1, 64) / 64)


def test_a_point_for_a_range() -> None:
    network = ScalarMLP(4, 9)
    x = torch.randn(4)
    knots, slopes, intercepts = linear_pieces(*parameters([network]), x, x, 1)
    assert knots.shape == (4, 0)
    expected = network(x[:, None])[:, 0]
    torch.testing.assert_close(slopes[:, 0] * x + intercepts[:, 0], expected)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", range(8))
def test_what_is_not_finite_stays_so(bad: float, place: int) -> None:
    network = ScalarMLP(2, 6)
    weights, biases = parameters([network])
    inputs = [x.detach().clone() for x in (*weights, *biases)]
    inputs += [-torch.ones(2), torch.ones(2)]
    inputs[place].view(2, -1)[1, -1] = bad
    arguments = inputs[:3], inputs[3:6], *inputs[6:], 1
    knots, slopes, intercepts = linear_pieces(*arguments)
    assert knots.isfinite().all()
    assert slopes[0].isfinite().all()
    assert slopes[1].isnan().all()
    assert intercepts[1].isnan().all()
    gradients = linear_pieces_backward(*arguments, torch.ones_like(slopes), intercepts)
    assert all(g[0].isfinite().all() and g[1].isnan().all() for g in gradients)


def test_bad_networks_are_errors() -> None:
    weights, biases = ([x.detach() for x in part] for part in parameters([ScalarMLP(2, 5)]))
    low, high = -torch.ones(2), torch.ones(2)
    slopes = linear_pieces(weights, biases, low, high, 1)[1]
    turned = weights[1].mT
    for wrong in (
        ([], [], low, high, 1),
        (weights, biases, low, high, 0),
        (weights, biases, low, high, 2),
        (weights[:1], biases[:1], low, high, 1),
        (weights, biases[:2], low, high, 1),
        (weights[::-1], biases, low, high, 1),
        ([weights[0], turned, weights[2]], biases, low, high, 1),
        ([weights[0][:, :0], *weights[1:]], biases, low, high, 1),
        ([x[:0] for x in weights], [x[:0] for x in biases], low[:0], high[:0], 1),
        ([x.double() for x in weights], biases, low, high, 1),
        (weights, biases, low[:1], high, 1),
        (weights, biases, low, high.double(), 1),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            linear_pieces(*wrong)
        with pytest.raises(ValueError, match=r"\w"):
            linear_pieces_backward(*wrong, slopes, slopes)
    for wrong in (slopes[:1], slopes[:, :0], slopes.double(), slopes[0]):
        with pytest.raises(ValueError, match=r"\w"):
            linear_pieces_backward(weights, biases, low, high, 1, wrong, slopes)


def test_bad_number_of_gradients_reads_nothing_outside() -> None:
    """Fewer or more of them than there are pieces: what is there is used."""
    weights, biases = ([x.detach() for x in part] for part in parameters([ScalarMLP(2, 28)]))
    ends = -torch.ones(2), torch.ones(2)
    for count in (1, 500):
        d = torch.ones(2, count)
        found = linear_pieces_backward(weights, biases, *ends, 1, d, d)
        assert all(x.isfinite().all() for x in found)


def test_opcheck_of_linear_pieces() -> None:
    weights, biases = parameters([ScalarMLP(2, 5)])
    torch.library.opcheck(linear_pieces, (weights, biases, -torch.ones(2), torch.ones(2), 1))


def native(network: ScalarMLP) -> object:
    low, high = torch.zeros(1), torch.ones(1)
    return linear_pieces(*map(list, parameters([network])), low, high, 1)


@pytest.mark.parametrize("find", [native, lambda network: network.linear_pieces(0.0, 1.0)])
def test_too_many_pieces_are_refused_at_once(find):
    """2⁴⁰ of them, from two units a layer."""
    with pytest.raises(ValueError, match="φ has more than 65,536 linear pieces"):
        find(tents(40))
    find(tents(10))
