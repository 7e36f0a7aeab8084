"""Message-passing networks: the layers that PyG has, and the one it has in another form."""

from __future__ import annotations

import torch
from torch_geometric.data import Batch

from eigenformer.models import build_model
from eigenformer.models.gated_gcn import GatedGCNLayer
from tests.models.test_networks import config, graphs_for


def test_gated_gcn_edge_by_edge() -> None:
    """The equations of the paper, with a loop over edges."""
    layer = GatedGCNLayer(4).double().eval()
    x, edges = torch.randn(5, 4).double(), torch.randn(6, 4).double()
    edge_index = torch.tensor([[0, 1, 2, 3, 0, 4], [1, 0, 1, 1, 2, 1]])
    found, found_edges = layer(x, edge_index, edges)
    own, message, to, of = layer.nodes(x).chunk(4, 1)
    hidden = torch.stack(
        [layer.edge(e) + to[i] + of[j] for e, (j, i) in zip(edges, edge_index.T, strict=True)]
    )
    expected = []
    for i in range(5):
        gates = [(h.sigmoid(), j) for h, (j, k) in zip(hidden, edge_index.T, strict=True) if k == i]
        total = sum((gate for gate, _ in gates), torch.zeros(4).double())
        received = sum((gate * message[j] for gate, j in gates), torch.zeros(4).double())
        expected.append(own[i] + received / (total + 1e-6))
    scale = (1 + layer.node_norm.eps) ** -0.5  # the norms have their first statistics
    torch.testing.assert_close(found, x + (torch.stack(expected) * scale).relu())
    torch.testing.assert_close(found_edges, edges + (hidden * scale).relu())


def test_a_block_is_a_convolution_a_norm_and_a_residual_connection() -> None:
    made = config("gine", layers=1, pooling="none")
    model = build_model(made).eval()
    batch = Batch.from_data_list(graphs_for(made, [6, 8]))
    inputs, block = model.encode(batch), model.layers[0]
    received = block.convolution(inputs.x, batch.edge_index, inputs.edges)
    expected = inputs.x + block.norm(received).relu()
    torch.testing.assert_close(model(batch), model.head(expected))
