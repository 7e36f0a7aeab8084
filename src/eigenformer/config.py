"""Settings: typed dataclasses, and the paper's models as presets. Imports no PyTorch."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from eigenformer.nearest import unknown
from eigenformer.options import Backend, DegreeScaling, FrequencyDraw, Pooling, Psi

T = TypeVar("T", bound="Settings")


class ConfigError(ValueError):
    """A setting that is unknown, of the wrong type, or impossible."""


@dataclass(frozen=True)
class Settings:
    """Base of all settings: checked when made, and convertible to and from plain data."""

    def __post_init__(self) -> None:
        for name, annotation in _annotations(type(self)).items():
            object.__setattr__(self, name, _checked(getattr(self, name), annotation, name))
        self.check()

    def check(self) -> None:
        """Raises :class:`ConfigError` for values that are impossible together or alone."""

    @classmethod
    def from_dict(cls: type[T], values: Mapping[str, Any], path: str = "") -> T:
        """Builds the settings from plain data; ``path`` is what to call them in an error."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{path or cls.__name__}: expected settings, got {values!r}")
        annotations = _annotations(cls)
        for key in values:
            if key not in annotations:
                raise ConfigError(unknown(_join(path, str(key)), str(key), annotations))
        required = {f.name for f in dataclasses.fields(cls) if _is_required(f)}
        for key in sorted(required - set(values)):
            raise ConfigError(f"{_join(path, key)}: missing, and it has no default")
        checked = {
            key: _checked(value, annotations[key], _join(path, key))
            for key, value in values.items()
        }
        try:
            return cls(**checked)
        except ConfigError as error:
            raise ConfigError(_join(path, str(error))) from None

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, which :meth:`from_dict` takes back."""
        return _plain(self)

    def replace(self: T, **changes: Any) -> T:
        """A copy with other values; an unknown name is an error that names the nearest one."""
        return type(self).from_dict({**self.to_dict(), **changes})


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
        _require_positive(self, "num_types", "width")
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
        _require_positive(self, "in_channels")


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
        feature_attention: Whether attention also depends on node and edge features.
        psi: ψ of the feature attention: ``signed_sqrt`` or ``identity``.
        ffn_width: Hidden width of the feed-forward networks; None for ``hidden_dim``.
        dropout: Dropout on nodes.
        attention_dropout: Dropout on attention weights, after the softmax.
        pooling: From nodes to a graph: ``sum``, ``mean``, or ``none`` for node tasks.
        degree_scaler: θ ``shared`` by all layers, ``per_layer``, or ``none``.
        input_norm: Whether the encoded nodes pass a batch norm (which scales and shifts).
        norm_affine: Whether the layers' batch norms scale and shift.
        norm_shared: Whether all layers share those scales and shifts.
        frequency_fraction: The share of each graph's frequencies used in a training step.
        frequency_draw: Draw them as whole ``eigenspaces``, or one by one (``literal``, the
            paper's way, which makes the output depend on the choice of eigenvectors).
        attention_backend: How attention is computed: ``auto``, ``native``, ``torch`` or
            ``literal``.
    """

    node_encoder: EncoderSpec
    out_channels: int = 1
    edge_encoder: EncoderSpec | None = None
    layers: int = 12
    heads: int = 8
    hidden_dim: int = 72
    phi_width: int = 28
    phi_depth: int = 2
    feature_attention: bool = False
    psi: Psi = "signed_sqrt"
    ffn_width: int | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    pooling: Pooling = "mean"
    degree_scaler: DegreeScaling = "shared"
    input_norm: bool = True
    norm_affine: bool = False
    norm_shared: bool = False
    frequency_fraction: float = 1.0
    frequency_draw: FrequencyDraw = "eigenspaces"
    attention_backend: Backend = "auto"

    def check(self) -> None:
        _require_positive(
            self, "out_channels", "layers", "heads", "hidden_dim", "phi_width", "phi_depth"
        )
        if self.hidden_dim % self.heads:
            raise ConfigError(
                f"hidden_dim: {self.hidden_dim} is not a multiple of heads, {self.heads}"
            )
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


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How a model is trained: AdamW, linear warm-up, then cosine decay to 0.

    Args:
        batch_size: Graphs per step.
        learning_rate: Its peak.
        epochs: Length of the schedule.
        warmup_epochs: Of which warm-up.
        weight_decay: AdamW's.
        betas: AdamW's.
        eps: AdamW's.
        gradient_clip: Largest norm of the gradient.
    """

    batch_size: int
    learning_rate: float
    epochs: int
    warmup_epochs: int
    weight_decay: float = 1e-5
    betas: tuple[float, ...] = (0.9, 0.99)
    eps: float = 1e-8
    gradient_clip: float = 1.0

    def check(self) -> None:
        _require_positive(self, "batch_size", "epochs", "learning_rate", "eps", "gradient_clip")
        if self.warmup_epochs < 0 or self.weight_decay < 0:
            raise ConfigError("warmup_epochs, weight_decay: must not be negative")
        if len(self.betas) != 2:
            raise ConfigError(f"betas: takes two numbers, got {self.betas}")


@dataclass(frozen=True)
class PaperRecord(Settings):
    """What the paper reports for one model.

    Args:
        metric: The benchmark's metric.
        result: The paper's test figure.
        parameters: The parameter count it prints.
        epoch_seconds: Time per epoch.
        memory_gb: Peak memory.
        accelerator: On which GPU.
        remark: Where the paper contradicts itself, and how that is settled here.
    """

    metric: str
    result: float
    parameters: int
    epoch_seconds: float
    memory_gb: float
    accelerator: str
    remark: str = ""


@dataclass(frozen=True)
class Preset(Settings):
    """One of the paper's models: its data, architecture, training and reported figures."""

    name: str
    dataset: str
    model: EigenformerConfig
    training: TrainingConfig
    paper: PaperRecord = field(repr=False)


def presets() -> tuple[str, ...]:
    """The names of all presets."""
    names = (entry.name for entry in (resources.files("eigenformer") / "presets").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


@cache
def load_preset(name: str) -> Preset:
    """Reads a preset by its name."""
    if name not in presets():
        raise ConfigError(unknown(f"preset '{name}'", name, presets()))
    text = (resources.files("eigenformer") / "presets" / f"{name}.yaml").read_text("utf-8")
    return Preset.from_dict({"name": name, **yaml.safe_load(text)})


def _annotations(cls: type[Settings]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _is_required(f: dataclasses.Field[Any]) -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _require_positive(settings: Settings, *names: str) -> None:
    for name in names:
        if getattr(settings, name) <= 0:
            raise ConfigError(f"{name}: must be positive, got {getattr(settings, name)}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _checked(value: Any, annotation: Any, path: str) -> Any:
    """``value`` as ``annotation`` wants it, or a :class:`ConfigError` that names ``path``."""
    origin = get_origin(annotation)
    if origin is Literal:
        if value not in get_args(annotation):
            raise ConfigError(unknown(f"{path}: '{value}'", str(value), get_args(annotation)))
        return value
    if origin in (Union, types.UnionType):
        return _checked_union(value, get_args(annotation), path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path}: expected a list, got {value!r}")
        return tuple(
            _checked(v, get_args(annotation)[0], f"{path}[{i}]") for i, v in enumerate(value)
        )
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return value if isinstance(value, annotation) else annotation.from_dict(value, path)
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # bool is an int to Python, but True is no number of layers.
    if type(value) is not annotation:
        raise ConfigError(f"{path}: expected {annotation.__name__}, got {value!r}")
    return value


def _checked_union(value: Any, members: tuple[Any, ...], path: str) -> Any:
    if value is None and type(None) in members:
        return None
    members = tuple(m for m in members if m is not type(None))
    if len(members) == 1:
        return _checked(value, members[0], path)
    if isinstance(value, members):
        return value
    # A union of settings: 'kind' tells which one.
    kinds = {get_args(_annotations(m)["kind"])[0]: m for m in members}
    kind = value.get("kind") if isinstance(value, Mapping) else None
    if kind is None:
        raise ConfigError(
            f"{path}: expected settings with a 'kind' ({', '.join(kinds)}), got {value!r}"
        )
    if kind not in kinds:
        raise ConfigError(unknown(f"{path}.kind: '{kind}'", str(kind), kinds))
    return kinds[kind].from_dict(value, path)
