"""A trained model as a folder: ``model.safetensors`` and ``model.json``, without pickles.

A folder with an ``ensemble.json`` and several such folders inside it is a model as well.

The weights are plain tensors. The JSON file holds everything else needed to predict: the
architecture, how features are made, what the outputs mean, and how targets were standardised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigenformer.config import (
    ConfigError,
    DataConfig,
    InputFormat,
    ModelConfig,
    Settings,
    TrainingConfig,
    parse_yaml,
)
from eigenformer.config.json_text import parse_json
from eigenformer.config.old_formats import upgrade_card
from eigenformer.files import write_atomic
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits
from eigenformer.options import Backend
from eigenformer.targets import Calibration, Target

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from eigenformer.models.base import Model

WEIGHTS, CARD, ENSEMBLE = "model.safetensors", "model.json", "ensemble.json"
_FORMAT = 2


class ModelFolderError(ValueError):
    """Raised if a folder does not hold a model, or holds a damaged one."""


@dataclass(frozen=True)
class ModelCard(Settings):
    """Everything to know about a model except its weights.

    Args:
        architecture: The settings of the model.
        target: What the model predicts; None for a model that was not trained here.
        input_format: How raw inputs become graphs for the model.
        data: The data the model was trained on.
        training: How the model was trained.
        preset: The preset that the settings started from.
        seed: The seed of the training.
        epoch: The epoch that the weights come from, counted from 1.
        validation: The metric of these weights on the validation set.
        calibration: How wrong these weights were on graphs that they were not trained on.
        data_digest: A checksum of the graphs, targets and split of the training.
        format: The format version of the folder.
    """

    architecture: ModelConfig
    target: Target | None = None
    input_format: InputFormat = field(default_factory=InputFormat)
    data: DataConfig | None = None
    training: TrainingConfig | None = None
    preset: str | None = None
    seed: int | None = None
    epoch: int | None = None
    validation: float | None = None
    calibration: Calibration | None = None
    data_digest: str | None = None
    format: int = _FORMAT

    def check(self) -> None:
        if self.format != _FORMAT:
            raise ConfigError(f"format: {self.format}, but this version reads up to {_FORMAT}")
        if self.target is None:
            return
        _check_calibration(self.calibration, self.target)
        outputs, width = self.architecture.out_channels, self.target.width
        if outputs != width:
            raise ConfigError(f"the model has {outputs} outputs, but its target needs {width}")
        if (self.architecture.pooling == "none") != self.target.of_nodes:
            raise ConfigError(
                f"pooling '{self.architecture.pooling}' cannot predict {self.target.level} targets"
            )


def _check_calibration(calibration: Calibration | None, target: Target) -> None:
    columns = 0 if calibration is None else len(calibration.scores)
    if columns not in (0, target.num_values):
        raise ConfigError(f"calibration.scores: {columns} for {target.num_values} targets")


@dataclass(frozen=True)
class EnsembleCard(Settings):
    """The models that predict together.

    Args:
        members: The folders of the models, inside the folder of the ensemble.
        calibration: How wrong their mean was on graphs that they were not trained on.
        format: The format version of the file.
    """

    members: tuple[str, ...]
    calibration: Calibration | None = None
    format: int = 1

    def check(self) -> None:
        if self.format != 1:
            raise ConfigError(f"format: {self.format}, but this version reads up to 1")
        if not self.members:
            raise ConfigError("members: none")
        if len(set(self.members)) != len(self.members):
            raise ConfigError("members: one of them is named twice")
        for name in self.members:
            if not name or name in (".", "..") or "/" in name or "\\" in name:
                raise ConfigError(f"members: '{name}' is not the name of a folder inside this one")


def write_ensemble(folder: str | Path, card: EnsembleCard) -> None:
    """Makes a model of the models in a folder."""
    text = json.dumps(card.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(Path(folder) / ENSEMBLE, f"{text}\n".encode())


def read_ensemble(folder: str | Path) -> EnsembleCard | None:
    """Reads which models in a folder predict together; None if it is not an ensemble."""
    file = Path(folder) / ENSEMBLE
    try:
        return EnsembleCard.from_dict(parse_json(file.read_text("utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{file}: damaged, or not an ensemble ({error})") from None


def check_single(folder: str | Path) -> None:
    """Raises an error if a folder has an ensemble where one model is expected."""
    if (together := read_ensemble(folder)) is not None:
        first = Path(folder) / together.members[0]
        raise ModelFolderError(
            f"{folder}: an ensemble of {len(together.members)} models; use one of them, for "
            f"example {first}"
        )


def write_card(folder: str | Path, card: ModelCard) -> None:
    """Writes only the card of a model."""
    text = json.dumps(card.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(Path(folder) / CARD, f"{text}\n".encode())


def save_model(folder: str | Path, model: Model, card: ModelCard | None = None) -> None:
    """Writes both files, each completely or not at all.

    Writes the weights first, so that a JSON file never lacks its weights.
    """
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in model.state_dict().items()
    }
    if (name := not_finite(tensors)) is not None:
        raise ModelFolderError(f"{folder}: not written, because '{name}' is not a finite number")
    # Use one entry only: safetensors writes several in any order, but equal weights should give
    # equal files.
    write_atomic(folder / WEIGHTS, save(tensors, {"sha256": weights_digest(tensors)}))
    write_card(folder, card or ModelCard(model.config))


def load_model(
    folder: str | Path, backend: Backend = "auto", limits: Limits = DEFAULT_LIMITS
) -> tuple[Model, ModelCard]:
    """Loads the model in a folder, in evaluation mode, and its card. Executes no code it reads.

    The weights must have the shapes of the architecture, which is compared before it is built. The
    card of an ensemble is that of its first member, with the calibration of the ensemble.
    """
    together = read_ensemble(folder)
    if together is not None:
        return _load_ensemble(Path(folder), together, backend, limits)
    from eigenformer.models import build_model, model_shapes

    card = read_card(folder, limits)
    tensors = read_weights(folder)
    try:
        own = model_shapes(card.architecture, limits)
    except LimitError as error:
        raise ModelFolderError(f"{Path(folder) / CARD}: {error}") from None
    for name in sorted(set(own) ^ set(tensors)):
        state = (
            "is missing, but part of the architecture"
            if name in own
            else "is not part of the architecture"
        )
        raise ModelFolderError(f"{Path(folder) / WEIGHTS}: '{name}' {state} in {CARD}")
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != own[name]:
            shapes = f"{tuple(tensor.shape)}, expected {own[name]}"
            raise ModelFolderError(f"{Path(folder) / WEIGHTS}: '{name}' has shape {shapes}")
    floating = _floating_type(tensors, Path(folder) / WEIGHTS)
    if (bad := not_finite(tensors)) is not None:
        raise ModelFolderError(f"{Path(folder) / WEIGHTS}: '{bad}' is not a finite number")
    model = build_model(card.architecture, backend)
    model.to(floating).load_state_dict(tensors)
    return model.eval(), card


def _floating_type(tensors: Mapping[str, Tensor], file: Path) -> dtype:
    """Returns the type of the weights: float32 or float64. Raises an error if there is another."""
    import torch

    types = {tensor.dtype: name for name, tensor in tensors.items()}
    for kind, name in types.items():
        if kind not in (torch.float32, torch.float64, torch.int64):
            raise ModelFolderError(
                f"{file}: '{name}' is of type {kind}, expected torch.float32 or torch.float64"
            )
    floating = types.keys() - {torch.int64}
    if len(floating) != 1:
        raise ModelFolderError(f"{file}: all weights must be torch.float32, or all torch.float64")
    return floating.pop()


def _load_ensemble(
    folder: Path, together: EnsembleCard, backend: Backend, limits: Limits
) -> tuple[Model, ModelCard]:
    from eigenformer.models.ensemble import Ensemble

    models: list[Model] = []
    targets: list[Target] = []
    cards: list[ModelCard] = []
    for name in together.members:
        if (folder / name / ENSEMBLE).exists():
            raise ModelFolderError(f"{folder / name}: a member of an ensemble cannot be one")
        model, card = load_model(folder / name, backend, limits)
        first = cards[0] if cards else card
        if card.target is None or first.target is None or not card.target.same_as(first.target):
            raise ModelFolderError(f"{folder / name}: predicts something else than other members")
        if (card.architecture.needs, card.input_format) != (
            first.architecture.needs,
            first.input_format,
        ):
            raise ModelFolderError(f"{folder / name}: needs other inputs than other members")
        models.append(model)
        targets.append(card.target)
        cards.append(card)
    try:
        _check_calibration(together.calibration, targets[0])
    except ConfigError as error:
        raise ModelFolderError(f"{folder / ENSEMBLE}: {error}") from None
    return Ensemble(models, targets).eval(), replace(cards[0], calibration=together.calibration)


def read_card(folder: str | Path, limits: Limits = DEFAULT_LIMITS) -> ModelCard:
    """Reads only the card, without importing PyTorch."""
    file = Path(folder) / CARD
    try:
        values = parse_json(file.read_text("utf-8"))
        limits.check_settings(values)
        return ModelCard.from_dict(upgrade_card(values, _run_beside(Path(folder))))
    except (FileNotFoundError, NotADirectoryError):
        check_single(folder)
        raise ModelFolderError(
            f"{folder}: no model here ({CARD} is missing): expected a run folder, or a folder "
            f"with {WEIGHTS} and {CARD}"
        ) from None
    except LimitError as error:
        raise ModelFolderError(f"{file}: {error}") from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{file}: damaged, or not a model card ({error})") from None


def _run_beside(folder: Path) -> dict[str, Any] | None:
    """Returns the settings of the run that wrote a model, or None if the folder has none."""
    import yaml

    try:
        values = parse_yaml((folder / "config.yaml").read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return values if isinstance(values, dict) else None


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """Reads the tensors in a folder and verifies their checksum."""
    file = Path(folder) / WEIGHTS
    tensors, digest = read_tensors(file)
    if digest is None:
        raise ModelFolderError(f"{file}: has no checksum: not written by Eigenformer, or altered")
    if digest != weights_digest(tensors):
        raise ModelFolderError(f"{file}: its checksum does not match: the file was altered")
    return tensors


def read_tensors(file: Path) -> tuple[dict[str, Tensor], str | None]:
    """Reads the tensors in a file, and the checksum that it states."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            return tensors, (stream.metadata() or {}).get("sha256")
    except FileNotFoundError:
        raise ModelFolderError(f"{file}: missing") from None
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{file}: damaged, or not safetensors ({error})") from None


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Returns the name of a tensor with a NaN or an infinite number; None if there is none."""
    return next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None)


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """Returns the SHA-256 of named tensors."""
    import torch

    content = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        content.update(repr((name, tuple(tensor.shape), str(tensor.dtype))).encode())
        content.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()
