"""Settings of encoders, of every network, and of the Eigenformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from typing_extensions import Self

from eigenformer.config.encodings import EncodingSpec
from eigenformer.config.settings import ConfigError, Settings, require_positive
from eigenformer.nearest import unknown
from eigenformer.options import (
    FEED_FORWARDS,
    LOCAL_BRANCHES,
    NORMS,
    DegreeScaling,
    FrequencyDraw,
    Pooling,
    Psi,
)

# With larger initial weights, single precision overflows in the first step.
_LARGEST_GAIN = 1e6


@dataclass(frozen=True)
class EmbeddingSpec(Settings):
    """One type per node or edge: an embedding, then a linear map.

    Args:
        num_types: Number of types.
        width: Width of the embedding.
        no_edge_type: Type that means "no edge", for edges.
    """

    num_types: int
    width: int = 128
    no_edge_type: int | None = None
    kind: Literal["embedding"] = "embedding"

    def check(self) -> None:
        require_positive(self, "num_types", "width")
        if self.no_edge_type is not None and not 0 <= self.no_edge_type < self.num_types:
            raise ConfigError(f"no_edge_type: {self.no_edge_type} is not in [0, {self.num_types})")

    def describe(self, channels: int) -> tuple[str, ...]:
        """Describes the steps of the encoder, for vectors of width ``channels``."""
        return f"embedding {self.num_types} × {self.width}", f"linear {self.width} → {channels}"


@dataclass(frozen=True)
class CategoricalSpec(Settings):
    """Several categories per node or edge, as in OGB: one embedding per column, summed.

    Args:
        sizes: Number of categories in each column.
    """

    sizes: tuple[int, ...]
    kind: Literal["categorical"] = "categorical"

    def check(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ConfigError(f"sizes: expected one or more positive integers, got {self.sizes}")

    def describe(self, channels: int) -> tuple[str, ...]:
        """Describes the steps of the encoder, for vectors of width ``channels``."""
        return f"{len(self.sizes)} embeddings", f"summed, width {channels}"


@dataclass(frozen=True)
class LinearSpec(Settings):
    """Numbers per node or edge: a linear map.

    Args:
        in_channels: Number of features per node or edge.
        bias: Whether the map has a bias; for edges, the bias is the value of "no edge".
    """

    in_channels: int
    bias: bool = True
    kind: Literal["linear"] = "linear"

    def check(self) -> None:
        require_positive(self, "in_channels")

    def describe(self, channels: int) -> tuple[str, ...]:
        """Describes the steps of the encoder, for vectors of width ``channels``."""
        return (f"linear {self.in_channels} → {channels}",)


@dataclass(frozen=True)
class OnesSpec(Settings):
    """A vector of ones, without parameters, for nodes or edges without features."""

    kind: Literal["ones"] = "ones"

    def describe(self, channels: int) -> tuple[str, ...]:
        """Describes the steps of the encoder, for vectors of width ``channels``."""
        return (f"{channels} ones",)


EncoderSpec = EmbeddingSpec | CategoricalSpec | LinearSpec | OnesSpec


class Needs(NamedTuple):
    """What is computed for the graphs of a network before training, and kept."""

    spectrum: bool = False
    encoding: EncodingSpec | None = None


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Settings that all networks have in common.

    Each network has a subclass with its own ``kind``; ``network`` names the class of the model.

    Args:
        node_encoder: How node features become vectors.
        out_channels: Number of predicted values per graph or node.
        edge_encoder: How edge features become vectors; None to ignore edge features.
        layers: Number of layers L.
        hidden_dim: Width d of nodes and edges.
        dropout: Dropout on nodes.
        pooling: How nodes are pooled into a graph: ``sum``, ``mean``, or ``none`` for node tasks.
        num_descriptors: Number of descriptors of a graph, joined to the pooled nodes; 0 for none.
    """

    network: ClassVar[str]
    """Class of the model as ``module:class``, imported when a model is built."""

    uses_backend: ClassVar[bool] = False
    """Whether the network has spectrum-aware attention, which a backend computes."""

    node_encoder: EncoderSpec
    out_channels: int = 1
    edge_encoder: EncoderSpec | None = None
    layers: int = 12
    hidden_dim: int = 72
    dropout: float = 0.0
    pooling: Pooling = "mean"
    num_descriptors: int = 0

    def check(self) -> None:
        require_positive(self, "out_channels", "layers", "hidden_dim")
        if self.num_descriptors < 0:
            raise ConfigError(f"num_descriptors: must not be negative, got {self.num_descriptors}")
        if self.num_descriptors and self.pooling == "none":
            raise ConfigError("num_descriptors: nodes have no descriptors, only graphs have")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout: must be in [0, 1), got {self.dropout}")
        if (
            isinstance(self.node_encoder, EmbeddingSpec)
            and self.node_encoder.no_edge_type is not None
        ):
            raise ConfigError("node_encoder.no_edge_type: only for edge_encoder")

    @property
    def needs(self) -> Needs:
        """What graphs need beside their features; nothing else is computed."""
        return Needs()

    @property
    def attention_heads(self) -> int | None:
        """Number of attention heads per layer; None for a network without attention."""
        return getattr(self, "heads", None)

    def check_backend(self, backend: str) -> None:
        """Raises an error if a backend is chosen for a network that does not use one."""
        if backend != "auto" and not self.uses_backend:
            raise ConfigError(
                f"backend: '{backend}' is a way to compute spectrum-aware attention, which "
                f"{self.title} does not have"
            )

    @property
    def title(self) -> str:
        """Name of the network in messages and tables: its kind, and its type within the kind."""
        return str(getattr(self, "kind", type(self).__name__))

    def tiny(self) -> Self:
        """Returns the smallest network with the same inputs and the same number of outputs."""
        return self.replace(layers=1, hidden_dim=1)


@dataclass(frozen=True)
class EigenformerConfig(NetworkConfig):
    """An Eigenformer: attention made from the spectrum, and optionally from features.

    Args:
        node_encoder: How node features become vectors.
        out_channels: Number of predicted values per graph or node.
        edge_encoder: How edge features become vectors; None to ignore edge features.
        layers: Number of layers L.
        hidden_dim: Width d of nodes and edges; a multiple of ``heads``.
        dropout: Dropout on nodes.
        pooling: How nodes are pooled into a graph: ``sum``, ``mean``, or ``none`` for node tasks.
        num_descriptors: Number of descriptors of a graph, joined to the pooled nodes; 0 for none.
        heads: Number of attention heads H per layer.
        phi_width: Hidden width p of φ₁ and φ₂.
        phi_depth: Number of hidden layers of φ₁ and φ₂.
        phi_gain: Size of the initial weights of φ₁ and φ₂, relative to PyTorch's linear layers.
            With 1, attention starts nearly uniform and stays so for long in large graphs;
            √6 ≈ 2.45 is He initialisation.
        feature_attention: Whether attention also depends on node and edge features.
        psi: Function ψ of the feature attention: ``signed_sqrt`` or ``identity``.
        attention_dropout: Dropout on attention weights, after the softmax.
        drop_path: Probability of leaving out the branches of the last layer for a graph in a
            training step; grows linearly from 0 in the first layer. 0, as in the paper, to keep
            all branches.
        degree_scaler: Degree scaling with θ ``shared`` by all layers or ``per_layer``; ``none``
            for no degree scaling.
        node_potentials: Number of learned node potentials added to the encoded nodes; 0, as in
            the paper, for none.
        potential_width: Hidden width of the φ of each node potential.
        local_branch: Network that sends messages along edges, beside the attention of each
            layer: ``gine`` or ``gated``; None, as in the paper, for no such network.
        filters: Number of learned filters of the spectrum applied to the nodes, beside the
            attention of each layer; must divide ``hidden_dim``; 0, as in the paper, for none.
        filter_width: Hidden width of the φ of each filter.
        feed_forward: Network after the attention of each layer: ``mlp``.
        ffn_width: Hidden width of the feed-forward network; None for ``hidden_dim``.
        norm: Both norms of each layer: ``batch_norm``, ``layer_norm``, ``graph_norm`` or
            ``instance_norm``.
        norm_affine: Whether the batch norms of the layers scale and shift.
        norm_shared: Whether all layers share the scales and shifts of their batch norms.
        input_norm: Whether the encoded nodes pass through a batch norm, which scales and shifts.
        last_norm: Whether the last layer ends with a norm. With a batch norm there, sum pooling and
            a linear head, the mean prediction of a training batch is the bias of the head.
        head_layers: Number of linear maps in the head; each hidden layer is half as wide as the
            previous one.
        frequency_fraction: Share of the frequencies of each graph used in a training step.
        frequency_draw: How frequencies are sampled: as whole ``eigenspaces``, or one by one
            (``literal``), as in the paper, which makes the output depend on the choice of
            eigenvectors.
    """

    network: ClassVar[str] = "eigenformer.models.eigenformer:Eigenformer"
    uses_backend: ClassVar[bool] = True

    heads: int = 8
    phi_width: int = 28
    phi_depth: int = 2
    phi_gain: float = 1.0
    feature_attention: bool = False
    psi: Psi = "signed_sqrt"
    attention_dropout: float = 0.0
    drop_path: float = 0.0
    degree_scaler: DegreeScaling = "shared"
    node_potentials: int = 0
    potential_width: int = 16
    local_branch: str | None = None
    filters: int = 0
    filter_width: int = 12
    feed_forward: str = "mlp"
    ffn_width: int | None = None
    norm: str = "batch_norm"
    norm_affine: bool = False
    norm_shared: bool = False
    input_norm: bool = True
    last_norm: bool = True
    head_layers: int = 1
    frequency_fraction: float = 1.0
    frequency_draw: FrequencyDraw = "eigenspaces"
    kind: Literal["eigenformer"] = "eigenformer"

    def check(self) -> None:
        super().check()
        require_positive(self, "heads", "phi_width", "phi_depth", "head_layers")
        require_positive(self, "potential_width", "filter_width")
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
        if self.filters < 0 or (self.filters and self.hidden_dim % self.filters):
            raise ConfigError(
                f"filters: must be 0 or divide hidden_dim, {self.hidden_dim}, got {self.filters}"
            )
        if not 0 < self.phi_gain <= _LARGEST_GAIN:
            raise ConfigError(
                f"phi_gain: must be positive and at most {_LARGEST_GAIN:g}, got {self.phi_gain}"
            )
        if self.ffn_width is not None and self.ffn_width < 1:
            raise ConfigError(f"ffn_width: must be at least 1, got {self.ffn_width}")
        for name in ("attention_dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be in [0, 1), got {getattr(self, name)}")
        if not 0 < self.frequency_fraction <= 1:
            raise ConfigError(
                f"frequency_fraction: must be in (0, 1], got {self.frequency_fraction}"
            )
        if self.norm_affine and self.norm != "batch_norm":
            raise ConfigError(f"norm_affine: only for batch_norm, but norm is {self.norm}")
        if self.norm_shared and not self.norm_affine:
            raise ConfigError("norm_shared: there is nothing to share without norm_affine")

    @property
    def needs(self) -> Needs:
        """What graphs need beside their features: their spectra."""
        return Needs(spectrum=True)

    def tiny(self) -> Self:
        """Returns the smallest Eigenformer with the same inputs and the same number of outputs."""
        smallest = {"layers": 1, "heads": 1, "hidden_dim": 1, "phi_width": 1}
        return self.replace(**smallest, filters=min(self.filters, 1))
