"""Settings of the networks that an Eigenformer is compared with, and the union of all networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from typing_extensions import Self

from eigenformer.config.encodings import EncodingSpec, LaplacianSpec
from eigenformer.config.model import EigenformerConfig, Needs, NetworkConfig
from eigenformer.config.settings import ConfigError, kinds_of, require_positive
from eigenformer.options import LocalNetwork

_EIGENVECTORS = LaplacianSpec()


@dataclass(frozen=True)
class PeerConfig(NetworkConfig):
    """Settings that the other networks have in common.

    Args:
        encoding: Encoding of the structure beside the node features; None for none.
        head_layers: Number of linear maps in the head.
        head_narrows: Whether each hidden layer of the head is half as wide as the previous one;
            if not, all are as wide as the nodes.
    """

    encoding: EncodingSpec | None = None
    head_layers: int = 1
    head_narrows: bool = True

    def check(self) -> None:
        super().check()
        require_positive(self, "head_layers")
        if self.encoding is not None and self.encoding.width >= self.hidden_dim:
            raise ConfigError(
                f"encoding.width: {self.encoding.width} leaves no room for node features in "
                f"hidden_dim, {self.hidden_dim}"
            )

    @property
    def needs(self) -> Needs:
        """What graphs need beside their features: an encoding, if the settings name one."""
        return Needs(encoding=self.encoding)

    def tiny(self) -> Self:
        """Returns the smallest network with the same inputs and the same number of outputs."""
        small = None if self.encoding is None else self.encoding.replace(width=1).to_dict()
        heads = getattr(self, "heads", 1)
        return self.replace(layers=1, hidden_dim=2 * heads, encoding=small)


@dataclass(frozen=True)
class MessagePassingConfig(PeerConfig):
    """A message-passing network, named after its convolution: ``gcn``, ``gin``, ``gine``, ``gat``,
    ``gatedgcn`` or ``pna``. ``gcn`` and ``gin`` ignore edge features.

    Args:
        heads: Number of attention heads per layer, for ``gat`` only.
        typical_degree: Degree that the scalers of ``pna`` compare degrees with.
    """

    network: ClassVar[str] = "eigenformer.models.message_passing:MessagePassing"

    heads: int = 4
    typical_degree: int = 2
    kind: Literal["gcn", "gin", "gine", "gat", "gatedgcn", "pna"] = "gine"

    def check(self) -> None:
        super().check()
        require_positive(self, "heads", "typical_degree")
        for name, default, network in (("heads", 4, "gat"), ("typical_degree", 2, "pna")):
            if self.kind != network and getattr(self, name) != default:
                raise ConfigError(f"{name}: only for '{network}', but kind is '{self.kind}'")
        if self.kind == "gat":
            _check_heads(self, self.heads)

    @property
    def attention_heads(self) -> int | None:
        """Number of attention heads per layer; None for a network without attention."""
        return self.heads if self.kind == "gat" else None


@dataclass(frozen=True)
class AttentionConfig(PeerConfig):
    """Settings that the networks with attention between all nodes have in common.

    Args:
        hidden_dim: Width d of nodes and edges; a multiple of ``heads``.
        heads: Number of attention heads per layer.
        attention_dropout: Dropout on attention weights, after the softmax.
    """

    heads: int = 8
    attention_dropout: float = 0.0

    def check(self) -> None:
        super().check()
        require_positive(self, "heads")
        _check_heads(self, self.heads)
        if not 0 <= self.attention_dropout < 1:
            raise ConfigError(f"attention_dropout: must be in [0, 1), got {self.attention_dropout}")


@dataclass(frozen=True)
class TransformerConfig(AttentionConfig):
    """A plain transformer: nodes attend to all nodes, and the graph is seen in the encoding only.

    It has no use for edge features.
    """

    network: ClassVar[str] = "eigenformer.models.transformer:Transformer"

    encoding: EncodingSpec | None = _EIGENVECTORS
    kind: Literal["transformer"] = "transformer"


@dataclass(frozen=True)
class GPSConfig(AttentionConfig):
    """GPS: in every layer, messages along edges beside attention between all nodes.

    Args:
        local: Messages along edges: ``gine`` or ``gatedgcn``.
    """

    network: ClassVar[str] = "eigenformer.models.gps:GPS"

    heads: int = 4
    local: LocalNetwork = "gine"
    kind: Literal["gps"] = "gps"


@dataclass(frozen=True)
class GritConfig(AttentionConfig):
    """GRIT: attention from states of pairs of nodes, which start as random-walk probabilities.

    Args:
        steps: Number of relative random-walk probabilities: walks of 0 to ``steps`` - 1 steps.
    """

    network: ClassVar[str] = "eigenformer.models.grit:Grit"

    steps: int = 21
    kind: Literal["grit"] = "grit"

    def check(self) -> None:
        super().check()
        require_positive(self, "steps")


@dataclass(frozen=True)
class GraphormerConfig(AttentionConfig):
    """Graphormer: attention with learned biases of shortest-path distances and edges on the paths.

    Args:
        max_distance: Largest shortest-path distance with a bias of its own.
        max_degree: Largest degree with an embedding of its own.
        path_length: Number of edges of a shortest path whose features count.
        resistance: Whether a bias also depends on the resistance distance, which needs spectra.
        urpe: Whether attention weights are multiplied by a learned factor of the distance.
    """

    network: ClassVar[str] = "eigenformer.models.graphormer:Graphormer"

    max_distance: int = 20
    max_degree: int = 64
    path_length: int = 5
    resistance: bool = False
    urpe: bool = False
    kind: Literal["graphormer"] = "graphormer"

    def check(self) -> None:
        super().check()
        require_positive(self, "max_distance", "max_degree", "path_length")
        if self.path_length > self.max_distance:
            raise ConfigError(
                f"path_length: {self.path_length} is longer than max_distance, {self.max_distance}"
            )

    @property
    def needs(self) -> Needs:
        """What graphs need beside their features: spectra for resistances, and an encoding."""
        return Needs(spectrum=self.resistance, encoding=self.encoding)


@dataclass(frozen=True)
class ExphormerConfig(AttentionConfig):
    """Exphormer: GatedGCN beside sparse attention on edges, an expander and virtual nodes.

    Args:
        expander_degree: Number of neighbours of a node in the expander graph; an even number.
        virtual_nodes: Number of virtual nodes per graph, connected to all its nodes.
    """

    network: ClassVar[str] = "eigenformer.models.exphormer:Exphormer"

    heads: int = 4
    expander_degree: int = 6
    virtual_nodes: int = 1
    kind: Literal["exphormer"] = "exphormer"

    def check(self) -> None:
        super().check()
        require_positive(self, "expander_degree", "virtual_nodes")
        if self.expander_degree % 2:
            raise ConfigError(f"expander_degree: must be even, got {self.expander_degree}")


@dataclass(frozen=True)
class EGTConfig(AttentionConfig):
    """EGT: a transformer with states of all pairs of nodes, which gate attention.

    Args:
        pair_width: Width of the states of pairs.
        max_distance: Largest shortest-path distance with an embedding of its own.
    """

    network: ClassVar[str] = "eigenformer.models.egt:EGT"

    pair_width: int = 64
    max_distance: int = 16
    kind: Literal["egt"] = "egt"

    def check(self) -> None:
        super().check()
        require_positive(self, "pair_width", "max_distance")


@dataclass(frozen=True)
class SANConfig(AttentionConfig):
    """SAN: attention to neighbours and to all other nodes, with weights of their own.

    Args:
        gamma: Weight γ of the attention to nodes that are not neighbours, relative to neighbours.
    """

    network: ClassVar[str] = "eigenformer.models.san:SAN"

    encoding: EncodingSpec | None = _EIGENVECTORS
    gamma: float = 0.1
    kind: Literal["san"] = "san"

    def check(self) -> None:
        super().check()
        require_positive(self, "gamma")


def _check_heads(config: NetworkConfig, heads: int) -> None:
    if config.hidden_dim % heads:
        raise ConfigError(f"hidden_dim: {config.hidden_dim} is not a multiple of heads, {heads}")


ModelConfig = (
    EigenformerConfig
    | MessagePassingConfig
    | TransformerConfig
    | GPSConfig
    | GritConfig
    | GraphormerConfig
    | ExphormerConfig
    | EGTConfig
    | SANConfig
)
"""The settings of all networks; ``kind`` tells them apart."""


def networks() -> tuple[str, ...]:
    """Returns the names of all networks: every ``kind`` of :data:`ModelConfig`."""
    return tuple(kinds_of(get_args(ModelConfig)))
