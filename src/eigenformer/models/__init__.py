"""The networks: each takes a batch of graphs and returns predictions.

A network consists of a :class:`Model` in a file here and a class of settings in
``config/networks.py``, which names that model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import find, lazy_names

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
    model: Model = find(config.network)(config)
    model.backend = backend
    return model
