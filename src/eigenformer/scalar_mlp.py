"""φ₁ and φ₂: one scalar function per head, and its exact linear pieces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

ROOM_FOR_KNOTS = 4096
"""Networks that can have more knots than this are asked for their number."""

MOST_PIECES = 65_536
"""The largest number of linear pieces. Few hidden layers with hostile weights can have millions."""


class LinearPieces(NamedTuple):
    """Piecewise linear functions, one per head.

    Head h is ``slopes[h, m] * x + intercepts[h, m]`` on segment m, which lies between
    ``knots[h, m - 1]`` and ``knots[h, m]``. The outermost segments are unbounded. Heads with fewer
    knots than others repeat the upper end of the requested range.
    """

    knots: Tensor
    slopes: Tensor
    intercepts: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluates head h on ``x[h]``, at a cost that does not depend on the network's width."""
        flat = x.flatten(1)
        segment = torch.searchsorted(self.knots, flat.detach().contiguous())
        slope, intercept = self.slopes.gather(1, segment), self.intercepts.gather(1, segment)
        return torch.addcmul(intercept, slope, flat).view_as(x)


class ScalarMLP(nn.Module):
    r"""Independent scalar ReLU networks, one per head, evaluated together: the functions
    :math:`\phi_1` and :math:`\phi_2` of `"Graph Transformers without Positional Encodings"
    <https://arxiv.org/abs/2401.17791>`_.

    .. math::
        \phi^h(x) = w_3^\top \, \rho(W_2 \, \rho(w_1 x + b_1) + b_2) + b_3

    for the default depth of two hidden layers. A ReLU network from :math:`\mathbb{R}` to
    :math:`\mathbb{R}` is linear between finitely many knots, which :meth:`linear_pieces` finds in
    closed form.

    Args:
        heads: Number of independent networks.
        width: Units in each hidden layer.
        depth: Number of hidden layers.
        gain: The scale of the initial weights and biases of every layer, relative to a
            ``torch.nn.Linear``.
    """

    def __init__(self, heads: int, width: int, depth: int = 2, gain: float = 1.0) -> None:
        super().__init__()
        if min(heads, width, depth) < 1:
            raise ValueError(
                f"heads, width and depth must be at least 1, got {heads}, {width}, {depth}"
            )
        if not 0 < gain < math.inf:
            raise ValueError(f"gain: must be positive and finite, got {gain}")
        self.heads, self.width, self.depth, self.gain = heads, width, depth, gain
        sizes = [1, *[width] * depth, 1]
        shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
        self.weights = nn.ParameterList([torch.empty(heads, *shape) for shape in shapes])
        self.biases = nn.ParameterList([torch.empty(heads, size) for size, _ in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises all weights anew: ``gain`` times those of a ``torch.nn.Linear``."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = self.gain / math.sqrt(weight.size(-1))
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluates head h on every entry of ``x[h]``: ``[heads, *] → [heads, *]``."""
        if x.size(0) != self.heads:
            raise ValueError(f"x: {x.size(0)} rows, expected one for each of {self.heads} heads")
        hidden = x.reshape(self.heads, -1, 1)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer == 0:  # one input: an outer product, not a matrix product
                hidden = torch.addcmul(bias[:, None], hidden, weight.mT)
            else:
                hidden = torch.baddbmm(bias[:, None], hidden.relu(), weight.mT)
        return hidden.reshape(x.shape)

    def linear_pieces(self, low: float | Tensor, high: float | Tensor) -> LinearPieces:
        """Returns the networks on [low, high] (one range, or one per head) as exact linear pieces.

        Slopes and intercepts are differentiable in the weights. The knots have no gradient: the
        function is continuous, so moving a knot alone changes no value.
        """
        return linear_pieces(list(self.weights), list(self.biases), low, high)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, width={self.width}, depth={self.depth}"


def linear_pieces(
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    low: float | Tensor,
    high: float | Tensor,
) -> LinearPieces:
    """Returns the linear pieces of stacked scalar ReLU networks.

    Args:
        weights: One ``[heads, out, in]`` per layer, the first with ``in`` = 1, the last with
            ``out`` = 1.
        biases: One ``[heads, out]`` per layer.
        low: Lower end of the range, one for all heads or one per head.
        high: Upper end of the range, at least ``low``.
    """
    heads = weights[0].size(0)
    low, high = (
        torch.as_tensor(end, dtype=weights[0].dtype, device=weights[0].device).detach()
        for end in (low, high)
    )
    low, high = low.expand(heads).contiguous(), high.expand(heads).contiguous()
    knots = find_knots([w.detach() for w in weights], [b.detach() for b in biases], low, high)
    slopes, intercepts = _affine(weights, biases, _borders(low, knots, high))
    return LinearPieces(knots, slopes.squeeze(-1), intercepts.squeeze(-1))


@torch.library.custom_op("eigenformer::find_knots", mutates_args=())
def find_knots(weights: list[Tensor], biases: list[Tensor], low: Tensor, high: Tensor) -> Tensor:
    """Finds where the networks change slope inside (low, high): ``[heads, knots]``, ascending.

    This is a custom operator because the number of knots depends on the weights.
    ``torch.compile`` and ``torch.export`` see one opaque step instead of a branch on data.

    A GPU does not tell the CPU how many there are: there is room for as many as there can be, and
    the rest repeat ``high``. That holds for networks of few knots, such as those of the paper; for
    others, all devices count.
    """
    knots = low.new_empty(len(low), 0)
    counts = _counts_knots(weights, low.device)
    for layer in range(len(weights) - 1):
        # The units of this layer are linear between the knots of the previous layers.
        borders = _borders(low, knots, high)
        slope, intercept = _affine(weights[: layer + 1], biases[: layer + 1], borders)
        # A unit that never switches has slope 0: its root is infinite or NaN, never inside.
        roots = -intercept / slope
        inside = (roots > borders[:, :-1, None]) & (roots < borders[:, 1:, None])
        roots = roots.masked_fill(~inside, torch.inf).flatten(1)
        knots = torch.cat([knots.masked_fill(knots >= high[:, None], torch.inf), roots], 1)
        knots = knots.sort(1).values
        if counts:
            found = int(knots.isfinite().sum(1).max())
            check_pieces(found + 1)
            knots = knots[:, :found]
        knots = torch.minimum(knots, high[:, None])
    return knots


def check_pieces(count: int) -> None:
    """Raises an error if a network has too many linear pieces."""
    if count > MOST_PIECES:
        raise ValueError(f"φ has more than {MOST_PIECES:,} linear pieces: use a smaller phi_depth")


def _counts_knots(weights: Sequence[Tensor], device: torch.device) -> bool:
    return device.type == "cpu" or most_knots(weights) > ROOM_FOR_KNOTS


def most_knots(weights: Sequence[Tensor]) -> int:
    """Returns how many knots a network of these sizes can have."""
    most = 0
    for weight in weights[:-1]:
        most += (most + 1) * weight.size(1)  # a unit has one root at most on each segment
    return most


@find_knots.register_fake
def _(weights: list[Tensor], biases: list[Tensor], low: Tensor, high: Tensor) -> Tensor:
    return low.new_empty(len(low), torch.library.get_ctx().new_dynamic_size())


def _borders(low: Tensor, knots: Tensor, high: Tensor) -> Tensor:
    return torch.cat([low[:, None], knots, high[:, None]], 1)


def _affine(
    weights: Sequence[Tensor], biases: Sequence[Tensor], borders: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the last given layer before its activation, as slope · x + intercept per segment.

    ``borders`` ``[heads, segments + 1]`` are the ends of the segments. The slopes and intercepts
    are ``[heads, segments, units]``. The midpoint of a segment decides which units are active.
    """
    middle = (borders[:, :-1, None] + borders[:, 1:, None]) / 2
    segments = middle.size(1)
    slope = weights[0].mT.expand(-1, segments, -1)
    intercept = biases[0][:, None].expand(-1, segments, -1)
    for weight, bias in zip(weights[1:], biases[1:], strict=True):
        on = torch.addcmul(intercept, slope, middle) > 0
        slope = torch.bmm(slope * on, weight.mT)
        intercept = torch.baddbmm(bias[:, None], intercept * on, weight.mT)
    return slope, intercept
