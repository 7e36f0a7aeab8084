"""Learned filters of the spectrum, applied to the nodes: no pairs and no softmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigenformer.kernels import AttentionKernel
from eigenformer.scalar_mlp import ScalarMLP


class SpectralFilters(nn.Module):
    r"""Filters the nodes of each graph by learned functions of its spectrum.

    .. math::
        f = W \, \bigl\Vert_c \; U \, \phi^c(\Lambda) \, U^\top x_c

    where :math:`x_c` is a group of channels of the nodes, and each group has its own
    :math:`\phi^c`. The entries of :math:`U \phi(\Lambda) U^\top` are the paper's pair potentials.
    Here they are themselves the weights of the sum: they may be negative and need not add up to 1.
    A filter can therefore count and take differences, which a softmax average cannot. Like
    attention, filters depend neither on the signs of eigenvectors nor on the basis of an
    eigenspace. `"Specformer" <https://arxiv.org/abs/2303.01028>`_ and `"Spatio-Spectral Graph
    Neural Networks" <https://arxiv.org/abs/2405.19121>`_ use learned filters as well.

    Args:
        channels: d, the width of the nodes.
        filters: The number of filters. Must divide ``channels``.
        width: The hidden width of each :math:`\phi`.
        gain: The scale of the initial weights of each :math:`\phi`; see :class:`ScalarMLP`.
        dropout: Dropout on the result.
    """

    def __init__(
        self,
        channels: int,
        filters: int,
        width: int = 12,
        gain: float = 6**0.5,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if filters < 1 or channels % filters:
            raise ValueError(f"filters must divide channels, got {filters} and {channels}")
        self.phi = ScalarMLP(filters, width, gain=gain)
        self.out = nn.Linear(channels, channels)  # W
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        for module in (self.phi, self.out):
            module.reset_parameters()

    def forward(
        self, x: Tensor, graphs: AttentionKernel, importance: Tensor | None = None
    ) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``.

        Args:
            x: Node features ``[Σn, d]``.
            graphs: The kernel of the batch, from :func:`eigenformer.kernels.make_kernel`.
            importance: φ at the eigenvalues, if ``graphs.importances`` evaluated several layers
                together.
        """
        return self.dropout(self.out(self.filtered(x, graphs, importance).to(x.dtype)))

    def filtered(
        self, x: Tensor, graphs: AttentionKernel, importance: Tensor | None = None
    ) -> Tensor:
        """Applies the filters to nodes ``[Σn, d]``, without W."""
        # Under autocast, filters stay in full precision, as the scores of the attention do.
        with torch.autocast(x.device.type, enabled=False):
            if importance is None:
                (importance,) = graphs.importances([self.phi], self.phi.heads)
            values = x.to(importance.dtype).unflatten(1, (self.phi.heads, -1))
            return graphs.filter(values, importance).flatten(1)

    def describe(self) -> tuple[str, ...]:
        """Returns a short description, one string per line."""
        return "plus spectral filters", f"{self.phi.heads} of the nodes"

    def extra_repr(self) -> str:
        return f"{self.out.in_features}, filters={self.phi.heads}"
