"""The named choices of the model, shared by the settings and the code they choose."""

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
