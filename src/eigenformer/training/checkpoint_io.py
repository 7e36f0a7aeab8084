"""Checkpoints that are written whole and read without executing anything."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO

from eigenformer.files import write_atomic
from eigenformer.training.run_folder import RunError


class AtomicCheckpointIO(CheckpointIO):
    """How Lightning stores its checkpoints here."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        stream = io.BytesIO()
        torch.save(checkpoint, stream)
        write_atomic(Path(path), stream.getvalue())

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = True
    ) -> dict[str, Any]:
        """Tensors and plain data only, whatever ``weights_only`` says."""
        try:
            return torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path}: damaged, or not a checkpoint ({reason})") from None

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)
