"""Settings as typed dataclasses, and the paper's models as presets. Does not import PyTorch."""

from eigenformer.config.data import (
    BenchmarkData,
    DataConfig,
    InputFormat,
    OwnData,
    ReadOptions,
    SplitOptions,
)
from eigenformer.config.encodings import EncodingSpec, LaplacianSpec, RandomWalkSpec
from eigenformer.config.model import (
    CategoricalSpec,
    EigenformerConfig,
    EmbeddingSpec,
    EncoderSpec,
    LinearSpec,
    Needs,
    NetworkConfig,
    OnesSpec,
)
from eigenformer.config.networks import (
    EGTConfig,
    ExphormerConfig,
    GPSConfig,
    GraphormerConfig,
    GritConfig,
    MessagePassingConfig,
    ModelConfig,
    PeerConfig,
    SANConfig,
    TransformerConfig,
    networks,
)
from eigenformer.config.preset import PaperRecord, Preset, load_preset, presets
from eigenformer.config.run import RunConfig, TrainingConfig
from eigenformer.config.settings import ConfigError, Settings, merge
from eigenformer.config.yaml_text import parse_yaml

__all__ = [
    "BenchmarkData",
    "CategoricalSpec",
    "ConfigError",
    "DataConfig",
    "EGTConfig",
    "EigenformerConfig",
    "EmbeddingSpec",
    "EncoderSpec",
    "EncodingSpec",
    "ExphormerConfig",
    "GPSConfig",
    "GraphormerConfig",
    "GritConfig",
    "InputFormat",
    "LaplacianSpec",
    "LinearSpec",
    "MessagePassingConfig",
    "ModelConfig",
    "Needs",
    "NetworkConfig",
    "OnesSpec",
    "OwnData",
    "PaperRecord",
    "PeerConfig",
    "Preset",
    "RandomWalkSpec",
    "ReadOptions",
    "RunConfig",
    "SANConfig",
    "Settings",
    "SplitOptions",
    "TrainingConfig",
    "TransformerConfig",
    "load_preset",
    "merge",
    "networks",
    "parse_yaml",
    "presets",
]
