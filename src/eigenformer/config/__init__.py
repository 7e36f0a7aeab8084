"""Settings as typed dataclasses, and the paper's models as presets. Does not import PyTorch."""

from eigenformer.config.data import (
    BenchmarkData,
    DataConfig,
    InputFormat,
    OwnData,
    ReadOptions,
    SplitOptions,
)
from eigenformer.config.model import (
    CategoricalSpec,
    EigenformerConfig,
    EmbeddingSpec,
    EncoderSpec,
    LinearSpec,
    MessagePassingConfig,
    ModelConfig,
    NetworkConfig,
    OnesSpec,
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
    "EigenformerConfig",
    "EmbeddingSpec",
    "EncoderSpec",
    "InputFormat",
    "LinearSpec",
    "MessagePassingConfig",
    "ModelConfig",
    "NetworkConfig",
    "OnesSpec",
    "OwnData",
    "PaperRecord",
    "Preset",
    "ReadOptions",
    "RunConfig",
    "Settings",
    "SplitOptions",
    "TrainingConfig",
    "load_preset",
    "merge",
    "parse_yaml",
    "presets",
]
