"""The architecture's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eigenformer.config.settings import ConfigError, Settings, require_positive
from eigenformer.options import DegreeScaling, FrequencyDraw, Pooling, Psi


@dataclass(frozen=True)
class EmbeddingSpec(Settings):
    """One type per node or edge: an embedding, then a linear map.

    Args:
        num_types: Number of types.
        width: Width of the embedding.
        no_edge_type: For edges: the type that means "no edge".
    """

    num_types: int
    width: int = 128
    no_edge_type: int | None = None
    kind: Literal["embedding"] = "embedding"

    def check(self) -> None:
        require_positive(self, "num_types", "width")
        if self.no_edge_type is not None and not 0 <= self.no_edge_type < self.num_types:
            raise ConfigError(
                f"no_edge_type: {self.no_edge_type} is not a type below {self.num_types}"
            )


@dataclass(frozen=True)
class CategoricalSpec(Settings):
    """Several categories per node or edge, OGB-style: the sum of one embedding each.

    Args:
        sizes: Number of categories of each column.
    """

    sizes: tuple[int, ...]
    kind: Literal["categorical"] = "categorical"

    def check(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ConfigError(f"sizes: needs at least one column of at least 1, got {self.sizes}")


@dataclass(frozen=True)
class LinearSpec(Settings):
    """Numbers per node or edge: a linear map.

    Args:
        in_channels: How many.
        bias: Whether the map has a bias; for edges, it is the value of "no edge".
    """

    in_channels: int
    bias: bool = True
    kind: Literal["linear"] = "linear"

    def check(self) -> None:
        require_positive(self, "in_channels")


@dataclass(frozen=True)
class OnesSpec(Settings):
    """A vector of ones, without parameters, for nodes or edges that carry nothing."""

    kind: Literal["ones"] = "ones"


EncoderSpec = EmbeddingSpec | CategoricalSpec | LinearSpec | OnesSpec


@dataclass(frozen=True)
class EigenformerConfig(Settings):
    """The architecture of an Eigenformer.

    Args:
        node_encoder: How node features become vectors.
        out_channels: Numbers predicted per graph, or per node.
        edge_encoder: How edge features become vectors; None to use no edge features.
        layers: L, the number of layers.
        heads: H, attention heads per layer.
        hidden_dim: d, the width of nodes and edges; a multiple of ``heads``.
        phi_width: p, the hidden width of φ₁ and φ₂.
        phi_depth: Their number of hidden layers.
        phi_gain: How large their weights start, relative to PyTorch's linear layers. At 1 attention
            starts even, and in large graphs stays so for long; √6 ≈ 2.45 is He's.
        feature_attention: Whether attention also depends on node and edge features.
        psi: ψ of the feature attention: ``signed_sqrt`` or ``identity``.
        ffn_width: Hidden width of the feed-forward networks; None for ``hidden_dim``.
        dropout: Dropout on nodes.
        attention_dropout: Dropout on attention weights, after the softmax.
        pooling: From nodes to a graph: ``sum``, ``mean``, or ``none`` for node tasks.
        degree_scaler: θ ``shared`` by all layers, ``per_layer``, or ``none``.
        node_potentials: How many learned node potentials are added to the encoded nodes; 0, as in
            the paper, for none.
        potential_width: The hidden width of each potential's φ.
        local_branch: Whether each layer also sums messages along edges, beside its attention.
        head_layers: Linear maps of the head; each hidden layer is half as wide as the one before.
        input_norm: Whether the encoded nodes pass a batch norm (which scales and shifts).
        norm_affine: Whether the layers' batch norms scale and shift.
        norm_shared: Whether all layers share those scales and shifts.
        frequency_fraction: The share of each graph's frequencies used in a training step.
        frequency_draw: Draw them as whole ``eigenspaces``, or one by one (``literal``, the
            paper's way, which makes the output depend on the choice of eigenvectors).
    """

    node_encoder: EncoderSpec
    out_channels: int = 1
    edge_encoder: EncoderSpec | None = None
    layers: int = 12
    heads: int = 8
    hidden_dim: int = 72
    phi_width: int = 28
    phi_depth: int = 2
    phi_gain: float = 1.0
    feature_attention: bool = False
    psi: Psi = "signed_sqrt"
    ffn_width: int | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    pooling: Pooling = "mean"
    degree_scaler: DegreeScaling = "shared"
    node_potentials: int = 0
    potential_width: int = 16
    local_branch: bool = False
    head_layers: int = 1
    input_norm: bool = True
    norm_affine: bool = False
    norm_shared: bool = False
    frequency_fraction: float = 1.0
    frequency_draw: FrequencyDraw = "eigenspaces"

    def check(self) -> None:
        require_positive(
            self,
            "out_channels",
            "layers",
            "heads",
            "hidden_dim",
            "phi_width",
            "phi_depth",
            "potential_width",
            "head_layers",
        )
        if self.node_potentials < 0:
            raise ConfigError(f"node_potentials: must not be negative, got {self.node_potentials}")
        if self.hidden_dim % self.heads:
            raise ConfigError(
                f"hidden_dim: {self.hidden_dim} is not a multiple of heads, {self.heads}"
            )
        if not 0 < self.phi_gain < float("inf"):
            raise ConfigError(f"phi_gain: must be a number above 0, got {self.phi_gain}")
        if self.ffn_width is not None and self.ffn_width < 1:
            raise ConfigError(f"ffn_width: must be at least 1, got {self.ffn_width}")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be in [0, 1), got {getattr(self, name)}")
        if not 0 < self.frequency_fraction <= 1:
            raise ConfigError(
                f"frequency_fraction: must be in (0, 1], got {self.frequency_fraction}"
            )
        if self.norm_shared and not self.norm_affine:
            raise ConfigError("norm_shared: there is nothing to share without norm_affine")
        if (
            isinstance(self.node_encoder, EmbeddingSpec)
            and self.node_encoder.no_edge_type is not None
        ):
            raise ConfigError("node_encoder.no_edge_type: only edges have one")
