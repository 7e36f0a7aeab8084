"""The networks: each takes a batch of graphs and returns predictions.

A network consists of a :class:`Model` in a file here and a class of settings in
``config/networks.py``, which names that model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import find, lazy_names
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits

if TYPE_CHECKING:
    from eigenformer.config import NetworkConfig
    from eigenformer.models.base import Model
    from eigenformer.models.egt import EGT
    from eigenformer.models.eigenformer import Eigenformer
    from eigenformer.models.exphormer import Exphormer
    from eigenformer.models.gps import GPS
    from eigenformer.models.graphormer import Graphormer
    from eigenformer.models.grit import Grit
    from eigenformer.models.message_passing import MessagePassing
    from eigenformer.models.peer import Peer
    from eigenformer.models.san import SAN
    from eigenformer.models.sizes import comparable
    from eigenformer.models.transformer import Transformer
    from eigenformer.options import Backend

__all__ = [
    "EGT",
    "GPS",
    "SAN",
    "Eigenformer",
    "Exphormer",
    "Graphormer",
    "Grit",
    "MessagePassing",
    "Model",
    "Peer",
    "Transformer",
    "build_model",
    "comparable",
    "model_shapes",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EGT": "eigenformer.models.egt",
        "Eigenformer": "eigenformer.models.eigenformer",
        "Exphormer": "eigenformer.models.exphormer",
        "GPS": "eigenformer.models.gps",
        "Graphormer": "eigenformer.models.graphormer",
        "Grit": "eigenformer.models.grit",
        "MessagePassing": "eigenformer.models.message_passing",
        "Model": "eigenformer.models.base",
        "Peer": "eigenformer.models.peer",
        "SAN": "eigenformer.models.san",
        "Transformer": "eigenformer.models.transformer",
        "comparable": "eigenformer.models.sizes",
    },
)


def build_model(config: NetworkConfig, backend: Backend = "auto") -> Model:
    """Builds the network that the settings describe, with new weights.

    Args:
        config: The architecture.
        backend: How spectrum-aware attention is computed, in networks that have it.
    """
    config.check_backend(backend)
    model: Model = find(config.network)(config)
    model.backend = backend
    return model


def model_shapes(
    config: NetworkConfig, limits: Limits = DEFAULT_LIMITS
) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a network's tensors by name. Takes no memory for them.

    Raises an error if the network has too many parameters, or widths that are too large.
    """
    import torch

    limits.check_settings(config)
    try:
        with torch.device("meta"):
            tensors = build_model(config).state_dict()
    except (RuntimeError, TypeError, OverflowError) as error:  # PyTorch cannot represent a shape
        reason = str(error).partition("\n")[0]
        raise LimitError(f"the model is too large to build ({reason})") from None
    limits.check("parameters", sum(tensor.numel() for tensor in tensors.values()))
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
