"""A trained model as a folder: ``model.safetensors`` and ``model.json``, and no pickles.

The weights are plain tensors; the JSON says everything else that is needed to predict: the
architecture, how features are made, what the outputs mean, and how targets were standardised.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eigenformer.config import ConfigError, DataConfig, EigenformerConfig, Settings
from eigenformer.files import write_atomic
from eigenformer.options import MetricName, TargetKind

if TYPE_CHECKING:
    from torch import Tensor

    from eigenformer.model import Eigenformer

WEIGHTS, CARD = "model.safetensors", "model.json"
_FORMAT = 1
LOWER_IS_BETTER = ("mae", "rmse")
# level and kind: what such predictions may be judged by; the first is what is usual
_LABELS: dict[str, tuple[MetricName, ...]] = {
    "graph": ("auroc", "average_precision", "accuracy"),
    "node": ("weighted_accuracy", "accuracy"),
}
_METRICS: dict[str, dict[str, tuple[MetricName, ...]]] = {
    "regression": dict.fromkeys(("graph", "node"), ("mae", "rmse", "r2")),
    "multiclass": {
        "graph": ("accuracy", "weighted_accuracy", "f1"),
        "node": ("weighted_accuracy", "accuracy", "f1"),
    },
    "binary": _LABELS,
    "multilabel": _LABELS,
}


class ModelFolderError(ValueError):
    """A folder that holds no model, or a damaged one."""


@dataclass(frozen=True)
class Outputs(Settings):
    """What a model's numbers mean.

    Args:
        level: Whether they are about a graph or about each of its nodes.
        kind: What they are.
        num_outputs: How many.
        names: The targets' names, or the classes'.
        mean: Added to each standardised number to have it in the user's units.
        scale: What each is multiplied by first.
        judged_by: The metric that counts; None for what is usual.
    """

    level: Literal["graph", "node"] = "graph"
    kind: TargetKind = "regression"
    num_outputs: int = 1
    names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    judged_by: MetricName | None = None

    def check(self) -> None:
        if self.judged_by is not None and self.judged_by not in self.metrics:
            what = f"metric: '{self.judged_by}' does not suit {self.level} {self.kind}"
            raise ConfigError(f"{what}; take one of {', '.join(self.metrics)}")

    @property
    def metric(self) -> MetricName:
        """The metric that such models are judged by."""
        return self.judged_by or self.metrics[0]

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """All metrics that say something about them."""
        two = self.kind == "multiclass" and self.level == "graph" and self.num_outputs == 2
        return (*_METRICS[self.kind][self.level], *(("auroc",) if two else ()))

    @property
    def higher_is_better(self) -> bool:
        return self.metric not in LOWER_IS_BETTER

    def standardise(self, targets: Tensor) -> Tensor:
        """The user's units → what the model learns."""
        if not self.mean:
            return targets
        return (targets - targets.new_tensor(self.mean)) / targets.new_tensor(self.scale)

    def restore(self, predictions: Tensor) -> Tensor:
        """What the model predicts → the user's units."""
        if not self.mean:
            return predictions
        scale, mean = predictions.new_tensor(self.scale), predictions.new_tensor(self.mean)
        return predictions * scale + mean

    def same_task(self, other: Outputs) -> bool:
        """Whether a head for one serves the other."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self.level, self.kind, self.num_outputs, self.names


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
    outputs: Outputs | None = None
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
    from eigenformer.model import Eigenformer

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
        return ModelCard.from_dict(json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
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
