"""The paper's models and variants of them: their settings and the figures it reports for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from eigenformer.config.model import ModelConfig
from eigenformer.config.run import TrainingConfig
from eigenformer.config.settings import ConfigError, Settings, merge
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
    """One of the paper's models, or a variant: its data, architecture, training and figures.

    Args:
        name: What to call it. A variant's is that of the paper's model, and one more word.
        dataset: The benchmark it is for.
        model: The architecture.
        training: How it is trained.
        paper: What the paper reports for it, or for the model that it is a variant of; None for a
            model that is not the paper's.
        variant_of: The paper's model that it changes; empty for the paper's own.
    """

    name: str
    dataset: str
    model: ModelConfig
    training: TrainingConfig
    paper: PaperRecord | None = field(default=None, repr=False)
    variant_of: str = ""

    @property
    def variant(self) -> str:
        """What the variant is called among those of its model; empty for the paper's own."""
        return self.name.removeprefix(f"{self.variant_of}-") if self.variant_of else ""

    def original(self) -> Preset:
        """The paper's model that this one is, or is a variant of."""
        return load_preset(self.variant_of) if self.variant_of else self

    def described_changes(self) -> str:
        """The settings that are not those of the paper's model, an encoder by its kind."""
        changes = []
        for section in ("model", "training"):
            own, theirs = (getattr(p, section).to_dict() for p in (self, self.original()))
            changes += [(name, value) for name, value in own.items() if value != theirs.get(name)]
        return ", ".join(f"{k} {v['kind'] if isinstance(v, dict) else v}" for k, v in changes)


def presets() -> tuple[str, ...]:
    """The names of all presets: the paper's models, and variants of them."""
    names = (entry.name for entry in _FILES.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


@cache
def load_preset(name: str) -> Preset:
    """Reads a preset by its name."""
    if name not in presets():
        raise ConfigError(unknown(f"preset '{name}'", name, presets()))
    settings = parse_yaml((_FILES / f"{name}.yaml").read_text("utf-8"))
    if "variant_of" in settings:
        settings = merge(load_preset(settings["variant_of"]).to_dict(), settings)
    return Preset.from_dict({**settings, "name": name})
