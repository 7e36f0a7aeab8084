"""Model folders in repositories: on the Hugging Face hub (extra ``hub``), or in a folder."""

from eigenformer.hub.repositories import HubError
from eigenformer.hub.sharing import pull, push

__all__ = ["HubError", "pull", "push"]
