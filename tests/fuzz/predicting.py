"""What `predict` reads: streamed tables, its own partial output, ensembles, descriptors."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterator
from pathlib import Path

from safetensors.torch import load, save

from eigenformer.data.tables import open_rows
from eigenformer.reporting import SilentReporter
from eigenformer.trained_model import TrainedModel
from eigenformer.training import table_prediction
from eigenformer.training.novelty import REFERENCE, _digest
from eigenformer.training.prediction import predict_file
from tests.fuzz import mutation, seeds
from tests.fuzz.desk import Desk, molecules
from tests.fuzz.mutation import Random


@contextlib.contextmanager
def _pieces(rows: int) -> Iterator[None]:
    """Tables are predicted so many rows at a time."""
    before, table_prediction.CHUNK = table_prediction.CHUNK, rows
    try:
        yield
    finally:
        table_prediction.CHUNK = before


def streams(rng: Random, desk: Desk) -> None:
    """A table in pieces: every row of it has a row in the output, in its place."""
    source = molecules(rng, desk, parquet=0.3)
    out = desk.new / rng.choice(("p.csv", "p.csv", "p.tsv", "p.csv.gz"))
    with _pieces(rng.choice((1, 3, 8))):
        predict_file(desk.trained, source, out, novelty=rng.random() < 0.3)
    with open_rows(source, keep_bad=True) as table, open_rows(out) as written:
        width = len(table.header)
        for (_, cells), (_, shown) in zip(table.rows, written.rows, strict=True):
            cells = [*cells, *[""] * width][:width]
            assert shown[:width] == cells, f"{cells} became {shown}"


def partial_files(rng: Random, desk: Desk) -> None:
    """What a killed prediction left behind, altered: the output is the same all the same."""
    source, out = desk.folder / "m.csv", desk.clear() / "p.csv"
    with _pieces(4):
        with contextlib.suppress(_Killed):
            predict_file(desk.trained, source, out, reporter=_Killing(rng.randrange(1, 5)))
        partial, progress = Path(f"{out}.partial"), Path(f"{out}.partial.json")
        chance = rng.random()
        if chance < 0.3:
            partial.write_bytes(mutation.raw(rng, partial.read_bytes()))
        elif chance < 0.9:
            with contextlib.suppress(RecursionError):
                values = mutation.plain(rng, json.loads(progress.read_bytes()))
                progress.write_bytes(seeds.as_json(values))
        else:
            progress.write_bytes(mutation.raw(rng, progress.read_bytes()))
        predict_file(desk.trained, source, out)
    expected = desk.folder / "expected.csv"
    if not expected.exists():
        predict_file(desk.trained, source, expected)
    assert out.read_bytes() == expected.read_bytes(), "the output is another one"
    assert [file.name for file in desk.new.iterdir()] == ["p.csv"], "something is left"


def references(rng: Random, desk: Desk) -> None:
    """What a model has seen, altered, with the right checksum if there is one."""
    folder, name = _together(desk), f"seed0/{REFERENCE}"
    data = desk.together[name]
    if rng.random() < 0.7:
        tensors = load(data)
        for part in rng.sample(sorted(tensors), rng.choice((1, 2))):
            tensors[part] = mutation.tensor(rng, tensors[part])
        data = save(tensors, {"sha256": _digest(tensors, desk.described.model)})
    else:
        data = mutation.raw(rng, data)
    (folder / name).write_bytes(data)
    _predict(rng, desk, TrainedModel.open(folder))


def ensembles(rng: Random, desk: Desk) -> None:
    """An ensemble with one altered file, or a member that is another model."""
    folder = _together(desk)
    names = ("ensemble.json", "seed1/model.json", "seed1/config.yaml", "seed0/config.yaml")
    name = rng.choice((*names, "ensemble.json", "seed1"))
    if name == "seed1":
        for file in (folder / "seed1").iterdir():
            file.write_bytes(desk.run.get(file.name, b""))
    elif name.endswith(".json") and rng.random() < 0.9:
        with contextlib.suppress(RecursionError):
            values = mutation.plain(rng, json.loads(desk.together[name]))
            (folder / name).write_bytes(seeds.as_json(values))
    else:
        (folder / name).write_bytes(mutation.raw(rng, desk.together[name]))
    _predict(rng, desk, TrainedModel.open(folder))


def descriptors(rng: Random, desk: Desk) -> None:
    """Descriptors in a table, with cells of any kind."""
    source = molecules(rng, desk, seeds.DESCRIBED)
    predict_file(desk.described, source, desk.new / "p.csv", interval=rng.choice((None, 0.5)))


def _together(desk: Desk) -> Path:
    folder = desk.clear() / "together"
    for name, data in desk.together.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def _predict(rng: Random, desk: Desk, trained: TrainedModel) -> None:
    """Predicts with everything there is; every value is a finite number."""
    source, out = desk.folder / "described.csv", desk.new / "p.csv"
    predict_file(trained, source, out, interval=rng.choice((None, 0.5)), novelty=True)
    with out.open(newline="") as stream:
        for row in csv.DictReader(stream):
            value = float(row["novelty"] or 0)
            assert 0 <= value <= 1, f"a novelty of {value}"


class _Killed(Exception):
    """The process ended here."""


class _Killing(SilentReporter):
    """Ends the work after some of its pieces."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces

    @contextlib.contextmanager
    def step(self, title: str, total: int, unit: str = "graphs") -> Iterator[_Killing]:
        yield self

    def advance(self, amount: int) -> None:
        self.left -= 1
        if not self.left:
            raise _Killed
