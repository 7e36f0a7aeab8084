"""The networks: each takes a batch of graphs and returns predictions.

A network consists of a :class:`Model` in a file here and a class of settings in
``config/model.py``, which names that model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import find, lazy_names

if TYPE_CHECKING:
    from eigenformer.config import NetworkConfig
    from eigenformer.models.base import Model
    from eigenformer.models.eigenformer import Eigenformer
    from eigenformer.models.message_passing import MessagePassing, comparable
    from eigenformer.options import Backend

__all__ = ["Eigenformer", "MessagePassing", "Model", "build_model", "comparable"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Eigenformer": "eigenformer.models.eigenformer",
        "MessagePassing": "eigenformer.models.message_passing",
        "Model": "eigenformer.models.base",
        "comparable": "eigenformer.models.message_passing",
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
