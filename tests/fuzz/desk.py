"""The folders of one worker, and the tables of molecules that are read and predicted."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

from eigenformer.data.store import MANIFEST
from eigenformer.trained_model import TrainedModel
from tests.fuzz import mutation, seeds
from tests.fuzz.mutation import Random


class Desk:
    """The folders of one worker: the seeds, and one for the mutated input.

    Args:
        folder: Where everything is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.new = folder / "new"
        self.pickles, self.torch_files = seeds.pickles(), seeds.torch_files()
        self.npz, self.parquet = seeds.npz(), seeds.parquet()
        self.run = seeds.run_files(folder)
        self.manifest = json.loads((folder / "archive" / MANIFEST).read_text())
        self.trained = TrainedModel.open(folder / "run")
        self.together = seeds.files_below(folder / "together")
        self.described = TrainedModel.open(folder / "together")

    def clear(self) -> Path:
        """An empty folder for the next input."""
        shutil.rmtree(self.new, ignore_errors=True)
        self.new.mkdir(parents=True)
        return self.new


def molecules(
    rng: Random, desk: Desk, rows: list[list[str]] = seeds.MOLECULES, parquet: float = 0.0
) -> Path:
    """A table of molecules, altered; packed or as Parquet now and then."""
    if rng.random() < parquet:
        file = desk.clear() / "m.parquet"
        file.write_bytes(mutation.raw(rng, desk.parquet) if rng.random() < 0.5 else desk.parquet)
        return file
    text = seeds.csv_text(mutation.table(rng, rows), rng.choice(",,,;\t"))
    if rng.random() < 0.3:
        text = mutation.text(rng, text)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = mutation.raw(rng, data)
    file = desk.clear() / rng.choice(("m.csv", "m.csv", "m.tsv"))
    if rng.random() < 0.1:
        file, data = file.with_name(f"{file.name}.gz"), gzip.compress(data)
        data = mutation.raw(rng, data) if rng.random() < 0.5 else data
    file.write_bytes(data)
    return file
