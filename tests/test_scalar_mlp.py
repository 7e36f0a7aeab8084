from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigenformer import ScalarMLP

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13}


def check_pieces(phi: ScalarMLP, low: float, high: float, tolerance: float) -> torch.Tensor:
    """Compares values and weight gradients of the pieces with the network's; returns the knots."""
    pieces = phi.linear_pieces(low, high)
    knots = pieces.knots
    assert (knots >= low).all()
    assert (knots <= high).all()
    assert (knots.diff() >= 0).all()
    grid = torch.linspace(low, high, 2001, dtype=knots.dtype).expand(phi.heads, -1)
    middle = (knots[:, 1:] + knots[:, :-1]) / 2
    x = torch.cat([grid, knots, middle], 1)
    direct, looked_up = phi(x), pieces(x)
    scale = direct.abs().max().clamp(min=1)
    assert (direct - looked_up).abs().max() / scale < tolerance
    # Gradients away from knots, where both are defined.
    x = grid[:, (torch.cdist(grid[0, :, None], knots.reshape(-1, 1)) > 1e-4).all(1)]
    if x.numel():
        weight = torch.randn_like(x)
        expected = torch.autograd.grad((phi(x) * weight).sum(), list(phi.parameters()))
        got = torch.autograd.grad(
            (phi.linear_pieces(low, high)(x) * weight).sum(), list(phi.parameters())
        )
        largest = max(g.abs().max() for g in expected)
        for a, b in zip(got, expected, strict=True):
            assert (a - b).abs().max() / largest < tolerance
    return knots


@pytest.mark.parametrize("width", [1, 5, 28, 64])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_pieces_equal_the_network(width, depth, dtype):
    phi = ScalarMLP(4, width, depth).to(dtype)
    assert phi(torch.zeros(4, 7, dtype=dtype)).shape == (4, 7)
    check_pieces(phi, -3.0, 3.0, TOLERANCE[dtype])


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4), st.floats(0.1, 30.0))
def test_pieces_equal_the_network_for_any_weights(seed, width, depth, scale):
    torch.manual_seed(seed)
    phi = ScalarMLP(3, width, depth).double()
    with torch.no_grad():
        for p in phi.parameters():
            p.mul_(scale)
    check_pieces(phi, -2.0, 1.0, 1e-11)


def test_the_gain_makes_every_layer_start_larger():
    states = []
    for gain in (1.0, 3.0):
        torch.manual_seed(0)
        states.append(ScalarMLP(2, 5, gain=gain).state_dict())
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], 3 * tensor)


@pytest.mark.parametrize("gain", [0.0, -1.0, float("inf"), float("nan")])
def test_a_gain_that_starts_nothing_is_refused(gain):
    with pytest.raises(ValueError, match="gain: must be positive and finite, got"):
        ScalarMLP(2, 5, gain=gain)


def test_each_head_is_its_own_network(dtype):
    phi = ScalarMLP(3, 5).to(dtype)
    x = torch.linspace(-1, 1, 11, dtype=dtype).expand(3, -1)
    y = phi(x)
    for h in range(3):
        single = ScalarMLP(1, 5).to(dtype)
        single.load_state_dict({k: v[h : h + 1] for k, v in phi.state_dict().items()})
        assert torch.allclose(single(x[:1]), y[h : h + 1])
    assert not torch.allclose(y[0], y[1])


def test_a_known_function_has_its_known_knots():
    phi = ScalarMLP(1, 2, depth=1).double()
    # φ(x) = |x - 1| - 2 = ρ(x - 1) + ρ(1 - x) - 2
    phi.load_state_dict(
        {
            "weights.0": torch.tensor([[[1.0], [-1.0]]]),
            "biases.0": torch.tensor([[-1.0, 1.0]]),
            "weights.1": torch.tensor([[[1.0, 1.0]]]),
            "biases.1": torch.tensor([[-2.0]]),
        }
    )
    pieces = phi.linear_pieces(-3.0, 3.0)
    assert pieces.knots.tolist() == [[1.0, 1.0]]  # two units switch at the same place
    assert pieces.slopes[0, [0, -1]].tolist() == [-1.0, 1.0]
    assert pieces.intercepts[0, [0, -1]].tolist() == [-1.0, -3.0]
    x = torch.tensor([[-3.0, 0.0, 1.0, 1.5, 3.0]]).double()
    assert torch.equal(pieces(x), (x - 1).abs() - 2)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_degenerate_weights(depth, dtype):
    phi = ScalarMLP(5, 6, depth).to(dtype)
    with torch.no_grad():
        phi.weights[0][0] = 0  # head 0: no unit of the first layer ever switches
        phi.weights[0][1, :3] = 0  # head 1: some do not
        phi.biases[0][2] = 0  # head 2: all switch at 0
        phi.weights[0][3] = phi.weights[0][3, :1]  # head 3: all units are the same one
        phi.biases[0][3] = phi.biases[0][3, :1]
        for p in phi.parameters():  # head 4: nothing at all
            p[4] = 0
    check_pieces(phi, -2.0, 2.0, TOLERANCE[dtype])


def test_a_range_of_one_point(dtype):
    phi = ScalarMLP(3, 8).to(dtype)
    x = torch.full((3, 2), 0.3, dtype=dtype)
    assert torch.allclose(phi.linear_pieces(0.3, 0.3)(x), phi(x))
    ranges = torch.tensor([0.0, 0.5, 2.0], dtype=dtype)
    x = ranges[:, None] * torch.linspace(-1, 1, 9, dtype=dtype)
    assert torch.allclose(phi.linear_pieces(-ranges, ranges)(x), phi(x), atol=1e-6)


def test_thousands_of_pieces(dtype):
    # Each layer folds its input like a tent, so the pieces double with every layer.
    phi = ScalarMLP(2, 2, depth=12).to(dtype)
    with torch.no_grad():
        for layer, (weight, bias) in enumerate(zip(phi.weights, phi.biases, strict=True)):
            fold = torch.tensor([[1.0], [1.0]]) if layer == 0 else torch.tensor([[2.0, -4.0]] * 2)
            weight.copy_(fold if layer < 12 else torch.tensor([[2.0, -4.0]]))
            bias.copy_(torch.tensor([0.0, -0.5]) if layer < 12 else torch.tensor([0.0]))
    pieces = phi.linear_pieces(0.0, 1.0)
    assert pieces.slopes.size(1) >= 4096
    x = torch.rand(2, 5000, dtype=dtype)
    # A slope of 4096 turns float32's last digit of x into 2e-4.
    assert (pieces(x) - phi(x)).abs().max() < (2e-3 if dtype == torch.float32 else 1e-11)


def test_pieces_depend_on_the_weights_by_gradcheck():
    phi = ScalarMLP(2, 4).double()
    x = torch.linspace(-1, 1, 7).double().expand(2, -1)

    def evaluate(x, *parameters):
        half = len(parameters) // 2
        from eigenformer.scalar_mlp import linear_pieces

        return linear_pieces(parameters[:half], parameters[half:], -1.0, 1.0)(x)

    parameters = [p.detach().requires_grad_() for p in (*phi.weights, *phi.biases)]
    assert torch.autograd.gradcheck(evaluate, (x.clone().requires_grad_(), *parameters))


def test_impossible_sizes():
    with pytest.raises(ValueError, match="at least 1, got 2, 0, 2"):
        ScalarMLP(2, 0)
    with pytest.raises(ValueError, match="3 rows, expected one for each of 2 heads"):
        ScalarMLP(2, 4)(torch.randn(3, 5))
