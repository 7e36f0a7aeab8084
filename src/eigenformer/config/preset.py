"""Presets: the paper's models and their variants, and the networks they are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from eigenformer.config.networks import ModelConfig
from eigenformer.config.run import TrainingConfig
from eigenformer.config.settings import ConfigError, Settings, merge
from eigenformer.config.yaml_text import parse_yaml
from eigenformer.nearest import unknown

_FEWEST_EPOCHS = 20
_FILES = resources.files("eigenformer.config") / "preset_files"


@dataclass(frozen=True)
class PaperRecord(Settings):
    """What a paper reports for one model: ours or, for another network, the one in ``source``.

    Args:
        metric: Metric of the benchmark.
        result: Reported value of the metric on the test set.
        parameters: Reported number of parameters; None if it is not known.
        epoch_seconds: Reported seconds per epoch; None if it is not known.
        memory_gb: Reported peak memory in gigabytes; None if it is not known.
        accelerator: GPU on which time and memory were measured.
        source: Network and paper that the figures are from, if not from the Eigenformer's.
        remark: Contradictions within the paper, or differences from it, and their reasons.
    """

    metric: str
    result: float
    parameters: int | None = None
    epoch_seconds: float | None = None
    memory_gb: float | None = None
    accelerator: str = ""
    source: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Preset(Settings):
    """One of the paper's models, a variant, or another network: data, architecture and training.

    Args:
        name: Name of the preset. A variant has the name of the paper's model and one more word;
            another network has the name of the dataset and that of the network.
        dataset: Benchmark that the preset is for; empty for the user's own data.
        model: Architecture of the model.
        training: How the model is trained.
        paper: What the paper reports for the model, or for the model that it is a variant of; None
            for a model that is not from the paper.
        variant_of: The paper's model that a variant changes; empty for the paper's models.
        steps: Number of training steps. The number of epochs then depends on the number of graphs:
            at least 20, and at most that of ``training``; None for that of ``training``.
        patience: Stop after this many epochs without improvement in validation; None to never
            stop early.
        start: Weights of the package to start from, if they fit the model.
        fine_tuning: How the model is trained if it starts from them (default: in the same way). In
            a file, only what differs from ``training``.
    """

    name: str
    dataset: str
    model: ModelConfig
    training: TrainingConfig
    paper: PaperRecord | None = field(default=None, repr=False)
    variant_of: str = ""
    steps: int | None = None
    patience: int | None = None
    start: str | None = None
    fine_tuning: TrainingConfig | None = None

    def training_from(self, start: str | None) -> TrainingConfig:
        """Returns how the model is trained if it starts from these weights."""
        tuned = start is not None and start == self.start
        return self.fine_tuning if tuned and self.fine_tuning is not None else self.training

    def schedule(self, training: TrainingConfig, graphs: int) -> TrainingConfig:
        """Returns the training settings with as many epochs as this many graphs need."""
        if self.steps is None:
            return training
        epoch = training.epoch_steps or math.ceil(graphs / training.batch_size)
        epochs = min(max(round(self.steps / epoch), _FEWEST_EPOCHS), self.training.epochs)
        return training.with_epochs(epochs)

    @property
    def variant(self) -> str:
        """Name of the variant without that of its model; empty for the paper's models."""
        return self.name.removeprefix(f"{self.variant_of}-") if self.variant_of else ""

    def original(self) -> Preset:
        """Returns the paper's model that this preset is a variant of, or the preset itself."""
        return load_preset(self.variant_of) if self.variant_of else self

    def described_changes(self) -> str:
        """Lists the settings that differ from the paper's model; encoders appear by their kind."""
        changes = []
        for section in ("model", "training"):
            own, theirs = (getattr(p, section).to_dict() for p in (self, self.original()))
            changes += [(name, value) for name, value in own.items() if value != theirs.get(name)]
        return ", ".join(f"{k} {v['kind'] if isinstance(v, dict) else v}" for k, v in changes)


def presets() -> tuple[str, ...]:
    """Returns the names of all presets: the paper's models, their variants, other networks."""
    names = (entry.name for entry in _FILES.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


@cache
def load_preset(name: str) -> Preset:
    """Reads the preset with this name."""
    if name not in presets():
        raise ConfigError(unknown(f"preset '{name}'", name, presets()))
    settings = parse_yaml((_FILES / f"{name}.yaml").read_text("utf-8"))
    if "variant_of" in settings:
        settings = merge(load_preset(settings["variant_of"]).to_dict(), settings)
    if settings.get("fine_tuning") is not None:
        settings["fine_tuning"] = merge(settings["training"], settings["fine_tuning"])
    return Preset.from_dict({**settings, "name": name})
