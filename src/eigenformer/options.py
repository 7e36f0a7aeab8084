"""Named choices, shared by the settings and the code that they select."""

from typing import Literal

Backend = Literal["auto", "literal", "torch", "native", "triton"]
"""How attention is computed. ``literal`` is the oracle; ``auto`` is the fastest that fits."""

KERNELS = {
    "native": "eigenformer.kernels.native:NativeAttention",
    "triton": "eigenformer.kernels.triton:TritonAttention",
    "torch": "eigenformer.kernels.torch:TorchAttention",
    "literal": "eigenformer.kernels.literal:LiteralAttention",
}
"""The class of each kernel, by the name of its backend, the fastest first."""

Psi = Literal["signed_sqrt", "identity"]
"""ψ, applied to the product of queries and keys."""

Pooling = Literal["sum", "mean", "none"]
"""How nodes are pooled into a graph. ``none`` predicts for every node."""

DegreeScaling = Literal["shared", "per_layer", "none"]
"""Which layers share θ: one pair for all layers, one pair per layer, or no degree scaler."""

FrequencyDraw = Literal["eigenspaces", "literal"]
"""What a sample of the frequencies consists of: whole eigenspaces, or single frequencies."""

NORMS = {
    "batch_norm": "eigenformer.batch_norm:BatchNorm",
    "layer_norm": "torch.nn:LayerNorm",
    "graph_norm": "torch_geometric.nn:GraphNorm",
    "instance_norm": "torch_geometric.nn:InstanceNorm",
}
"""The class of each norm of a layer, by name."""

FEED_FORWARDS = {"mlp": "eigenformer.feed_forward:FeedForward"}
"""The class of each feed-forward network of a layer, by name."""

LOCAL_BRANCHES = {
    "gine": "eigenformer.local_branch:LocalBranch",
    "gated": "eigenformer.gated_branch:GatedBranch",
}
"""The class of each local branch of a layer, by name."""

NETWORK_NAMES = {
    "eigenformer": "Eigenformer",
    "gcn": "GCN",
    "gin": "GIN",
    "gine": "GINE",
    "gat": "GAT",
    "gatedgcn": "GatedGCN",
    "pna": "PNA",
    "transformer": "Transformer",
    "gps": "GPS",
    "grit": "GRIT",
    "graphormer": "Graphormer",
    "exphormer": "Exphormer",
    "egt": "EGT",
    "san": "SAN",
}
"""How tables and figures write each network, by its ``kind``."""

LocalNetwork = Literal["gine", "gatedgcn"]
"""The messages along edges beside the attention of GPS."""

Loss = Literal["l1", "l2", "huber"]
"""The loss of numbers."""

InitialBias = Literal["random", "targets"]
"""The initial bias of the head: random, or fitted to the training targets."""

SplitBy = Literal["column", "random", "stratified", "scaffold"]
"""How train, val and test are split: by the data itself, at random, or by molecular scaffold."""

Precision = Literal["32", "bf16", "16", "64"]
"""The floating-point precision to compute in. ``bf16`` and ``16`` are mixed precision."""
