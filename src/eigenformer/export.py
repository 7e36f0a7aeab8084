"""An Eigenformer as a function of plain tensors, for ``torch.export``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigenformer.kernels import make_kernel
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.ragged import RaggedGraphs


class SingleGraph(nn.Module):
    """Predicts for one graph of any size, from tensors instead of a PyG object.

    The inputs are the attributes of a :class:`torch_geometric.data.Data` after
    :class:`LaplacianSpectrum`, with U as a matrix ``[n, k]``. They are not checked: edges must be
    distinct, and features must be valid. Always uses plain PyTorch operators, whatever the
    ``backend`` of the model.

    Args:
        model: The model to wrap, in evaluation mode.
    """

    def __init__(self, model: Eigenformer) -> None:
        super().__init__()
        if model.config.num_descriptors:
            raise ValueError("a model with descriptors beside the graph cannot be exported")
        self.model = model

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        eigenvalues: Tensor,
        eigenvectors: Tensor,
    ) -> Tensor:
        """Returns predictions ``[1, out]``, or ``[n, out]`` for a node task."""
        n = x.size(0)
        # Dense, unlike spectrum.node_degrees, because shapes must not depend on the data here.
        adjacency = torch.zeros(n, n, dtype=torch.bool, device=x.device)
        adjacency = adjacency.index_put(tuple(edge_index), adjacency.new_ones(()))
        adjacency = (adjacency | adjacency.T) & ~torch.eye(n, dtype=torch.bool, device=x.device)
        graphs = RaggedGraphs(
            sizes=(n,),
            num_frequencies=(eigenvalues.size(0),),
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors.flatten(),
            edge_index=edge_index,
            degrees=adjacency.sum(1),
            node_graph=torch.zeros(n, dtype=torch.long, device=x.device),
        )
        return self.model.predict(x, edge_attr, make_kernel(graphs, "torch"))
