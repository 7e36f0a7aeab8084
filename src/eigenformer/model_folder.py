"""A trained model as a folder: ``model.safetensors`` and ``model.json``, and no pickles.

The weights are plain tensors; the JSON says everything else that is needed to predict: the
architecture, how features are made, what the outputs mean, and how targets were standardised.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.config import ConfigError, DataConfig, EigenformerConfig, Settings
from eigenformer.config.old_formats import upgrade_card
from eigenformer.files import write_atomic
from eigenformer.targets import Target

if TYPE_CHECKING:
    from torch import Tensor

    from eigenformer.models.eigenformer import Eigenformer

WEIGHTS, CARD = "model.safetensors", "model.json"
_FORMAT = 1


class ModelFolderError(ValueError):
    """A folder that holds no model, or a damaged one."""


@dataclass(frozen=True)
class ModelCard(Settings):
    """All that is to be known about a model besides its weights.

    Args:
        architecture: Its settings.
        outputs: What it predicts; None for a model that was not trained here.
        data: What it was trained on, and how raw inputs become graphs.
        preset: Where its settings started from.
        seed: Of its training.
        epoch: The epoch these weights are from, counted from 1.
        validation: Their metric on the validation set.
        node_features: The columns of the table of nodes that it was trained on, in order; empty
            where they have no names.
        edge_features: Those of the table of edges.
        format: Of the folder.
    """

    architecture: EigenformerConfig
    outputs: Target | None = None
    data: DataConfig | None = None
    preset: str | None = None
    seed: int | None = None
    epoch: int | None = None
    validation: float | None = None
    node_features: tuple[str, ...] = ()
    edge_features: tuple[str, ...] = ()
    format: int = _FORMAT

    def check(self) -> None:
        if self.format != _FORMAT:
            raise ConfigError(f"format: {self.format}, this version reads {_FORMAT}")


def save_model(folder: str | Path, model: Eigenformer, card: ModelCard | None = None) -> None:
    """Writes both files, each at once; weights first, so that the JSON always has them."""
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in model.state_dict().items()
    }
    # One entry only: safetensors writes several in any order, and the same weights are to give
    # the same file.
    write_atomic(folder / WEIGHTS, save(tensors, {"sha256": _digest(tensors)}))
    card = card or ModelCard(model.config)
    text = json.dumps(card.to_dict(), indent=1, ensure_ascii=False)
    write_atomic(folder / CARD, f"{text}\n".encode())


def load_model(folder: str | Path) -> tuple[Eigenformer, ModelCard]:
    """The model of a folder, in evaluation mode, and its card. Executes nothing it reads."""
    from eigenformer.models.eigenformer import Eigenformer

    card = read_card(folder)
    model = Eigenformer(card.architecture)
    tensors = read_weights(folder)
    own = model.state_dict()
    for name in sorted(set(own) ^ set(tensors)):
        state = "is missing" if name in own else "is not part of the architecture"
        raise ModelFolderError(f"{Path(folder) / WEIGHTS}: '{name}' {state} in {CARD}")
    for name, tensor in tensors.items():
        if tensor.shape != own[name].shape:
            shapes = f"{tuple(tensor.shape)}, the architecture asks for {tuple(own[name].shape)}"
            raise ModelFolderError(f"{Path(folder) / WEIGHTS}: '{name}' has the shape {shapes}")
    floating = next(t.dtype for t in tensors.values() if t.is_floating_point())
    model.to(floating).load_state_dict(tensors)
    return model.eval(), card


def read_card(folder: str | Path) -> ModelCard:
    """The card alone: needs no PyTorch."""
    file = Path(folder) / CARD
    try:
        return ModelCard.from_dict(upgrade_card(json.loads(file.read_text("utf-8"))))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFolderError(
            f"{folder}: no model here ({CARD} is missing): expected a run folder, or a folder "
            f"with {WEIGHTS} and {CARD}"
        ) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise ModelFolderError(f"{file}: damaged, or not a model's ({error})") from None


def read_weights(folder: str | Path) -> dict[str, Tensor]:
    """The tensors of a folder, checked against their checksum."""
    from safetensors import SafetensorError, safe_open

    file = Path(folder) / WEIGHTS
    try:
        with safe_open(file, framework="pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            digest = (stream.metadata() or {}).get("sha256")
    except FileNotFoundError:
        raise ModelFolderError(f"{file}: missing") from None
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{file}: damaged, or not safetensors ({error})") from None
    if digest is not None and digest != _digest(tensors):
        raise ModelFolderError(f"{file}: its checksum does not fit: it was altered")
    return tensors


def _digest(tensors: dict[str, Tensor]) -> str:
    import torch

    content = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        content.update(repr((name, tuple(tensor.shape), str(tensor.dtype))).encode())
        content.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()
