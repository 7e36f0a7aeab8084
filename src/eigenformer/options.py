"""The named choices, shared by the settings and the code they choose."""

from typing import Literal

Backend = Literal["auto", "literal", "torch", "native"]
"""How attention is computed: ``literal`` is the oracle, ``auto`` the fastest that fits."""

Psi = Literal["signed_sqrt", "identity"]
"""ψ, applied to the product of queries and keys."""

Pooling = Literal["sum", "mean", "none"]
"""From nodes to a graph; ``none`` predicts for every node."""

DegreeScaling = Literal["shared", "per_layer", "none"]
"""Where θ lives: one pair for all layers, one per layer, or no degree scaler."""

FrequencyDraw = Literal["eigenspaces", "literal"]
"""What a random subset of frequencies is made of: whole eigenspaces, or single frequencies."""

NORMS = {
    "batch_norm": "eigenformer.batch_norm:BatchNorm",
    "layer_norm": "torch.nn:LayerNorm",
    "graph_norm": "torch_geometric.nn:GraphNorm",
    "instance_norm": "torch_geometric.nn:InstanceNorm",
}
"""The norms of a layer by name, and the class of each."""

FEED_FORWARDS = {"mlp": "eigenformer.feed_forward:FeedForward"}
"""The feed-forward networks of a layer by name, and the class of each."""

LOCAL_BRANCHES = {"gine": "eigenformer.local_branch:LocalBranch"}
"""The local branches of a layer by name, and the class of each."""

Convolution = Literal["gcn", "gin", "gine", "gated", "gps"]
"""The layers of a message-passing network."""

InitialBias = Literal["random", "targets"]
"""The bias of the head before training: random, or what suits the training targets."""

SplitBy = Literal["column", "random", "stratified", "scaffold"]
"""Where train, val and test come from: the data itself, chance, or molecular scaffolds."""

Precision = Literal["32", "bf16", "16", "64"]
"""Numbers to compute with; ``bf16`` and ``16`` are mixed precision."""
