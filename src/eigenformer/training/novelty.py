"""How unlike the training set a graph is: how far it is from it for the head of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenformer.data.batching import GraphDataset
from eigenformer.files import write_atomic
from eigenformer.model_folder import ModelFolderError, read_tensors, weights_digest
from eigenformer.models.base import Model
from eigenformer.models.ensemble import Ensemble
from eigenformer.training.predicting import predict_batches

REFERENCE = "model.reference.safetensors"
_MOST = 500


@dataclass(frozen=True, eq=False)
class Reference:
    """Training graphs as the head of a model sees them, and how far other graphs are from them.

    The distance of a graph is that to the nearest training graph, with each channel in units of its
    deviation over the training graphs.

    Args:
        embeddings: Some training graphs, ``[r, d]``.
        scale: The deviation of each channel, ``[d]``.
        distances: The distances of validation graphs, ``[v]``, in ascending order.
    """

    embeddings: Tensor
    scale: Tensor
    distances: Tensor

    @classmethod
    def none(cls) -> Reference:
        """Returns the reference of a model whose training did not record what it has seen."""
        return cls(torch.zeros(0, 0), torch.zeros(0), torch.zeros(0))

    @property
    def known(self) -> bool:
        """Whether there is anything to compare with."""
        return len(self.distances) > 0

    @classmethod
    def of(cls, model: nn.Module, train: GraphDataset, val: GraphDataset) -> Reference:
        """Embeds training and validation graphs, at most 500 of each, spread over their sets."""
        known, new = (embed(model, _some(graphs)) for graphs in (train, val))
        deviation = known.std(0, correction=0)
        # A channel that is the same for all training graphs would decide alone.
        scale = torch.where(deviation > 1e-3 * deviation.max(), deviation, torch.inf)
        distances = _distances(new, known, scale)
        return cls(known, scale, distances.sort().values)

    def novelty(self, embeddings: Tensor) -> Tensor:
        """Returns the share of validation graphs that are nearer to the training set, ``[B]``."""
        if embeddings.size(1) != len(self.scale):
            widths = f"{len(self.scale)} channels, the model has {embeddings.size(1)}"
            raise ModelFolderError(f"{REFERENCE}: not the reference of this model ({widths})")
        found = _distances(embeddings, self.embeddings, self.scale)
        return torch.searchsorted(self.distances, found) / len(self.distances)

    def save(self, folder: str | Path, model: nn.Module) -> None:
        """Writes the file beside the model in a folder, with a checksum of both."""
        from safetensors.torch import save

        tensors = {name: value.contiguous() for name, value in vars(self).items()}
        write_atomic(Path(folder) / REFERENCE, save(tensors, {"sha256": _digest(tensors, model)}))

    @classmethod
    def load(cls, folder: str | Path, model: nn.Module) -> Reference:
        """Reads the file beside the model in a folder.

        Returns an empty reference if there is no file, or if it is not that of these weights.
        """
        file = Path(folder) / REFERENCE
        if not file.exists():
            return cls.none()
        tensors, digest = read_tensors(file)
        if digest != _digest(tensors, model):
            return cls.none()
        shapes = {name: tensor.dim() for name, tensor in tensors.items()}
        if shapes != {"embeddings": 2, "scale": 1, "distances": 1} or not (
            tensors["embeddings"].size(1) == len(tensors["scale"])
            and len(tensors["embeddings"])
            and len(tensors["distances"])
            and all(tensor.dtype == torch.float32 for tensor in tensors.values())
            and all(tensors[name].isfinite().all() for name in ("embeddings", "distances"))
            and (tensors["scale"] > 0).all()
            and (tensors["distances"].diff() >= 0).all()
            and max(len(tensors["embeddings"]), len(tensors["distances"])) <= _MOST
        ):
            raise ModelFolderError(f"{file}: not the reference of a model")
        return cls(**tensors)


def _digest(tensors: Mapping[str, Tensor], model: nn.Module) -> str:
    """Returns the checksum of a reference and of the weights that it belongs to."""
    own = model.first if isinstance(model, Ensemble) else model
    weights = {f"model.{name}": value for name, value in own.state_dict().items()}
    return weights_digest({**tensors, **weights})


def embed(model: nn.Module, graphs: GraphDataset, batch_size: int = 64) -> Tensor:
    """Returns graphs as the head of a model sees them, ``[B, d]``; of an ensemble, the first's."""
    model = model.first if isinstance(model, Ensemble) else model
    assert isinstance(model, Model)
    seen: list[Tensor] = []
    hook = model.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].cpu()))
    try:
        for _ in predict_batches(model, graphs, batch_size):
            pass
    finally:
        hook.remove()
    return torch.cat(seen).float()


def _some(graphs: GraphDataset) -> GraphDataset:
    chosen = torch.linspace(0, len(graphs) - 1, min(len(graphs), _MOST)).round().long()
    return GraphDataset(graphs.archive, graphs.spectra, indices=graphs.indices[chosen.numpy()])


def _distances(new: Tensor, known: Tensor, scale: Tensor) -> Tensor:
    return torch.cdist(new / scale, known / scale).min(1).values
