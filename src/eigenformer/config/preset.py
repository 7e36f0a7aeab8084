"""The paper's models: their settings and the figures it reports for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from eigenformer.config.model import EigenformerConfig
from eigenformer.config.run import TrainingConfig
from eigenformer.config.settings import ConfigError, Settings
from eigenformer.config.yaml_text import parse_yaml
from eigenformer.nearest import unknown

_FILES = resources.files("eigenformer.config") / "preset_files"


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
    names = (entry.name for entry in _FILES.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


@cache
def load_preset(name: str) -> Preset:
    """Reads a preset by its name."""
    if name not in presets():
        raise ConfigError(unknown(f"preset '{name}'", name, presets()))
    text = (_FILES / f"{name}.yaml").read_text("utf-8")
    return Preset.from_dict({"name": name, **parse_yaml(text)})
