"""A tiny training and prediction, and what must be the same however often they were disturbed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.torture.children import Clock, Ended, run
from tests.training.samples import molecule_rows, write_table

# Stops early, at an epoch in the middle.
_TRAIN = [
    *("--target", "weight", "--epochs", "30", "--patience", "2", "--lr", "0.02"),
    *("--batch-size", "24", "--threads", "1", "--model.dropout", "0.1"),
    *("--model.layers", "1", "--model.hidden_dim", "8", "--model.phi_width", "4"),
]
_SAME = ("config.yaml", "metrics.csv", "model.safetensors", "model.json")
_SUMMARY = ("state", "epochs", "best_epoch", "best_validation", "test", "test_metrics", "train")


@dataclass(frozen=True)
class Bench:
    """A folder with everything that one disturbed command needs.

    Args:
        path: The folder.
        table: The molecules, which all benches share.
    """

    path: Path
    table: Path

    @classmethod
    def make(cls, path: Path) -> Bench:
        path.mkdir(parents=True)
        return cls(path, write_table(path / "molecules.csv", molecule_rows()))

    def other(self, path: Path) -> Bench:
        """An empty bench with the same molecules."""
        path.mkdir(parents=True, exist_ok=True)
        return Bench(path, self.table)

    @property
    def run(self) -> Path:
        return self.path / "run"

    def command(self) -> list[str]:
        """What a user would type now: start the run, or resume it."""
        folders = ["--cache-dir", str(self.path / "cache")]
        if (self.run / "config.yaml").exists():
            return ["train", "--resume", str(self.run), *folders]
        return ["train", str(self.table), "--out", str(self.run), *_TRAIN, *folders]

    def prediction(self, model: Path) -> list[str]:
        out = str(self.path / "predictions.csv")
        return ["predict", str(model), str(self.table), "--out", out, "--threads", "1"]

    def finish(self, command: list[str], clock: Clock | None = None) -> Ended:
        """Runs a command that nothing happens to any more."""
        ended = run(command, self.path / "log", clock)
        (self.path / "log").unlink()
        return ended

    def operations(self) -> int:
        """How many operations on files the last undisturbed command took."""
        return int((self.path / "log.count").read_text())

    def phase(self, epochs: int) -> str:
        """How far a training of so many epochs is."""
        if not (self.run / "config.yaml").exists():
            return "preparing"
        if not (self.run / "last.ckpt").exists():
            return "starting"
        return "training" if self.epochs() < epochs else "stopping early or testing"

    def epochs(self) -> int:
        """How many epochs are in the checkpoint."""
        from eigenformer.training.checkpoint_io import AtomicCheckpointIO

        if not (self.run / "last.ckpt").exists():
            return 0
        state = AtomicCheckpointIO().load_checkpoint(self.run / "last.ckpt")
        return len(state["callbacks"]["Recorder"]["rows"])

    def remove(self) -> None:
        shutil.rmtree(self.path)


def fingerprint(bench: Bench) -> dict[str, str]:
    """The names of all files, and a checksum of all that does not depend on time."""
    from eigenformer.training.checkpoint_io import AtomicCheckpointIO, pack_state

    found = {}
    for file in sorted(bench.path.rglob("*")):
        name = str(file.relative_to(bench.path))
        if file.is_dir() or file.suffix in (".lock", ".count") or "tensorboard" in name:
            continue
        content = file.read_bytes()
        if file.name == "summary.json":
            summary = json.loads(content)
            content = json.dumps({key: summary.get(key) for key in _SUMMARY}).encode()
        elif file.name == "last.ckpt":
            state = AtomicCheckpointIO().load_checkpoint(file)
            for key in ("loops",):  # what Lightning counts of its own restarts
                state.pop(key)
            for times in ("seconds", "processor_seconds"):
                state["callbacks"]["Recorder"].pop(times)
            content = pack_state(state)
        found[name] = hashlib.sha256(content).hexdigest()[:16]
    return found


def differences(found: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """Which files are missing, too many, or other than they should be."""
    return [
        f"{name}: {found.get(name, 'missing')}, expected {wanted.get(name, 'no such file')}"
        for name in sorted(found.keys() | wanted.keys())
        if found.get(name) != wanted.get(name)
    ]


def fill(folder: Path) -> None:
    """Takes all the space of a file system."""
    with (folder / "filler").open("wb", buffering=0) as stream:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    os.write(stream.fileno(), bytes(size))
            except OSError:
                continue
