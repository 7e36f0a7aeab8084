"""The architectures' settings: one class for each network, and each says where its code is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from eigenformer.config.settings import ConfigError, Settings, require_positive
from eigenformer.nearest import unknown
from eigenformer.options import (
    FEED_FORWARDS,
    LOCAL_BRANCHES,
    NORMS,
    Convolution,
    DegreeScaling,
    FrequencyDraw,
    Pooling,
    Psi,
)


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

    def describe(self, channels: int) -> tuple[str, ...]:
        """What the encoder does, step by step, for vectors of width ``channels``."""
        return f"embedding {self.num_types} × {self.width}", f"linear {self.width} → {channels}"


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

    def describe(self, channels: int) -> tuple[str, ...]:
        """What the encoder does, step by step, for vectors of width ``channels``."""
        return f"{len(self.sizes)} embeddings", f"summed, width {channels}"


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

    def describe(self, channels: int) -> tuple[str, ...]:
        """What the encoder does, step by step, for vectors of width ``channels``."""
        return (f"linear {self.in_channels} → {channels}",)


@dataclass(frozen=True)
class OnesSpec(Settings):
    """A vector of ones, without parameters, for nodes or edges that carry nothing."""

    kind: Literal["ones"] = "ones"

    def describe(self, channels: int) -> tuple[str, ...]:
        """What the encoder does, step by step, for vectors of width ``channels``."""
        return (f"{channels} ones",)


EncoderSpec = EmbeddingSpec | CategoricalSpec | LinearSpec | OnesSpec


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """What all networks have in common.

    A network is one subclass, with a ``kind`` of its own, and the class that ``network`` names.

    Args:
        node_encoder: How node features become vectors.
        out_channels: Numbers predicted per graph, or per node.
        edge_encoder: How edge features become vectors; None to use no edge features.
        layers: L, the number of layers.
        hidden_dim: d, the width of nodes and edges.
        dropout: Dropout on nodes.
        pooling: From nodes to a graph: ``sum``, ``mean``, or ``none`` for node tasks.
    """

    network: ClassVar[str]
    """Where its code is: ``module:class``. Imported when a model is built."""

    needs_spectrum: ClassVar[bool] = False
    """Whether graphs need a spectrum; otherwise none is computed."""

    node_encoder: EncoderSpec
    out_channels: int = 1
    edge_encoder: EncoderSpec | None = None
    layers: int = 12
    hidden_dim: int = 72
    dropout: float = 0.0
    pooling: Pooling = "mean"

    def check(self) -> None:
        require_positive(self, "out_channels", "layers", "hidden_dim")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout: must be in [0, 1), got {self.dropout}")
        if (
            isinstance(self.node_encoder, EmbeddingSpec)
            and self.node_encoder.no_edge_type is not None
        ):
            raise ConfigError("node_encoder.no_edge_type: only edges have one")

    def tiny(self) -> Self:
        """The smallest network that takes the same graphs and gives as many outputs."""
        return self.replace(layers=1, hidden_dim=1)


@dataclass(frozen=True)
class EigenformerConfig(NetworkConfig):
    """An Eigenformer: attention made from the spectrum, and optionally from features.

    Args:
        node_encoder: How node features become vectors.
        out_channels: Numbers predicted per graph, or per node.
        edge_encoder: How edge features become vectors; None to use no edge features.
        layers: L, the number of layers.
        hidden_dim: d, the width of nodes and edges; a multiple of ``heads``.
        dropout: Dropout on nodes.
        pooling: From nodes to a graph: ``sum``, ``mean``, or ``none`` for node tasks.
        heads: H, attention heads per layer.
        phi_width: p, the hidden width of φ₁ and φ₂.
        phi_depth: Their number of hidden layers.
        phi_gain: How large their weights start, relative to PyTorch's linear layers. At 1 attention
            starts even, and in large graphs stays so for long; √6 ≈ 2.45 is He's.
        feature_attention: Whether attention also depends on node and edge features.
        psi: ψ of the feature attention: ``signed_sqrt`` or ``identity``.
        attention_dropout: Dropout on attention weights, after the softmax.
        degree_scaler: θ ``shared`` by all layers, ``per_layer``, or ``none``.
        node_potentials: How many learned node potentials are added to the encoded nodes; 0, as in
            the paper, for none.
        potential_width: The hidden width of each potential's φ.
        local_branch: A network that sends messages along edges, beside the attention of each
            layer: ``gine``; None, as in the paper, for none.
        feed_forward: The network behind the attention of each layer: ``mlp``.
        ffn_width: Its hidden width; None for ``hidden_dim``.
        norm: The two norms of each layer: ``batch_norm``, ``layer_norm``, ``graph_norm`` or
            ``instance_norm``.
        norm_affine: Whether the layers' batch norms scale and shift.
        norm_shared: Whether all layers share those scales and shifts.
        input_norm: Whether the encoded nodes pass a batch norm (which scales and shifts).
        head_layers: Linear maps of the head; each hidden layer is half as wide as the one before.
        frequency_fraction: The share of each graph's frequencies used in a training step.
        frequency_draw: Draw them as whole ``eigenspaces``, or one by one (``literal``, the
            paper's way, which makes the output depend on the choice of eigenvectors).
    """

    network: ClassVar[str] = "eigenformer.models.eigenformer:Eigenformer"
    needs_spectrum: ClassVar[bool] = True

    heads: int = 8
    phi_width: int = 28
    phi_depth: int = 2
    phi_gain: float = 1.0
    feature_attention: bool = False
    psi: Psi = "signed_sqrt"
    attention_dropout: float = 0.0
    degree_scaler: DegreeScaling = "shared"
    node_potentials: int = 0
    potential_width: int = 16
    local_branch: str | None = None
    feed_forward: str = "mlp"
    ffn_width: int | None = None
    norm: str = "batch_norm"
    norm_affine: bool = False
    norm_shared: bool = False
    input_norm: bool = True
    head_layers: int = 1
    frequency_fraction: float = 1.0
    frequency_draw: FrequencyDraw = "eigenspaces"
    kind: Literal["eigenformer"] = "eigenformer"

    def check(self) -> None:
        super().check()
        require_positive(self, "heads", "phi_width", "phi_depth", "potential_width", "head_layers")
        for name, known in (
            ("norm", NORMS),
            ("feed_forward", FEED_FORWARDS),
            ("local_branch", LOCAL_BRANCHES),
        ):
            part = getattr(self, name)
            if part is not None and part not in known:
                raise ConfigError(unknown(f"{name}: '{part}'", part, known))
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
        if not 0 <= self.attention_dropout < 1:
            raise ConfigError(f"attention_dropout: must be in [0, 1), got {self.attention_dropout}")
        if not 0 < self.frequency_fraction <= 1:
            raise ConfigError(
                f"frequency_fraction: must be in (0, 1], got {self.frequency_fraction}"
            )
        if self.norm_affine and self.norm != "batch_norm":
            raise ConfigError(f"norm_affine: only batch_norm takes it, the norm is {self.norm}")
        if self.norm_shared and not self.norm_affine:
            raise ConfigError("norm_shared: there is nothing to share without norm_affine")

    def tiny(self) -> Self:
        """The smallest Eigenformer that takes the same graphs and gives as many outputs."""
        return self.replace(layers=1, heads=1, hidden_dim=1, phi_width=1)


@dataclass(frozen=True)
class MessagePassingConfig(NetworkConfig):
    """A message-passing network of PyG, which needs no spectrum.

    Args:
        node_encoder: How node features become vectors.
        out_channels: Numbers predicted per graph, or per node.
        edge_encoder: How edge features become vectors, for convolutions that take any: ``gine``,
            ``gated`` and ``gps``.
        layers: L, the number of layers.
        hidden_dim: d, the width of nodes and edges; for ``gps`` a multiple of ``heads``.
        dropout: Dropout on nodes.
        pooling: From nodes to a graph: ``sum``, ``mean``, or ``none`` for node tasks.
        convolution: The layers: ``gcn``, ``gin``, ``gine``, ``gated`` or ``gps``.
        heads: Attention heads per layer, for ``gps`` alone.
        attention_dropout: Dropout on attention weights, for ``gps`` alone.
    """

    network: ClassVar[str] = "eigenformer.models.message_passing:MessagePassing"

    convolution: Convolution = "gine"
    heads: int = 4
    attention_dropout: float = 0.0
    kind: Literal["message_passing"] = "message_passing"

    def check(self) -> None:
        super().check()
        require_positive(self, "heads")
        if not 0 <= self.attention_dropout < 1:
            raise ConfigError(f"attention_dropout: must be in [0, 1), got {self.attention_dropout}")
        if self.convolution != "gps" and (self.heads, self.attention_dropout) != (4, 0.0):
            raise ConfigError(
                f"heads, attention_dropout: '{self.convolution}' has no attention, only gps has"
            )
        if self.convolution == "gps" and self.hidden_dim % self.heads:
            raise ConfigError(
                f"hidden_dim: {self.hidden_dim} is not a multiple of heads, {self.heads}"
            )

    def tiny(self) -> Self:
        """The smallest network that takes the same graphs and gives as many outputs."""
        return self.replace(layers=1, hidden_dim=self.heads)


ModelConfig = EigenformerConfig | MessagePassingConfig
"""All networks, told by their ``kind``."""
