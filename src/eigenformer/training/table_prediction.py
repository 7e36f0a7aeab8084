"""Predicts for a table of molecules of any length: in chunks, on all cores, and resumable."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from eigenformer import __version__
from eigenformer.data.descriptors import columns
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.featurizing import follow_parent
from eigenformer.data.molecules import MoleculeGraph
from eigenformer.data.rows import BadRow
from eigenformer.data.tables import open_rows
from eigenformer.data.text_rows import count_lines
from eigenformer.model_folder import weights_digest
from eigenformer.models.ensemble import Ensemble
from eigenformer.nearest import unknown
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import Reporter
from eigenformer.training.partial_file import PartialFile
from eigenformer.training.prediction_form import (
    REASON,
    Found,
    PredictionCounts,
    PredictionForm,
    encoded,
    predict_each,
)

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel

CHUNK = 1024
"""Rows per piece of work. Molecules are sorted by size within it."""
# With fewer rows, the work is done before other processes have started.
_MANY = 4 * CHUNK
# A piece with more than that is complete before it has all its rows.
_CHARACTERS = 1 << 24

Rows = list[list[str]]


@dataclass(frozen=True, eq=False)
class RowPredictor:
    """Predicts for rows of a table.

    Args:
        trained: The model.
        form: The columns to add.
        smiles: The column with SMILES.
        header: The columns of the table.
    """

    trained: TrainedModel
    form: PredictionForm
    smiles: str
    header: list[str]

    def __call__(self, rows: Rows) -> Rows:
        """Returns each row with its prediction, or with the reason why it has none."""
        return self.finish(rows, self.featurize(rows))

    def featurize(self, rows: Rows) -> list[MoleculeGraph | str]:
        """Returns the graph of each row, or the reason why it has none."""
        return [self._graph(cells) for cells in rows]

    def finish(self, rows: Rows, graphs: Sequence[MoleculeGraph | str]) -> Rows:
        """Predicts for the graphs, and returns the complete rows."""
        found = predict_graphs(self.trained, graphs, self.form)
        return [self.complete(cells, part) for cells, part in zip(rows, found, strict=True)]

    def complete(self, cells: list[str], found: Found) -> list[str]:
        """Returns a row with as many cells as the header has, and its prediction."""
        width = len(self.header)
        return [*[*cells, *[""] * (width - len(cells))][:width], *self.form.row(found)]

    def names(self) -> list[str]:
        """Returns the columns of a complete row. No two new ones have the same name."""
        return [*self.header, *_free_names([*self.form.header(), REASON], self.header)]

    def on_cpu(self) -> RowPredictor:
        """Returns the same with a copy of the model on the CPU, for another process."""
        model = copy.deepcopy(self.trained.model).cpu()
        return replace(self, trained=replace(self.trained, model=model))

    def _graph(self, cells: list[str]) -> MoleculeGraph | str:
        if isinstance(cells, BadRow):
            return cells.reason
        if not any(cell.strip() for cell in cells):
            return "the row is empty"
        if len(cells) != len(self.header):
            more = ", ".join(cells[len(self.header) :])
            rest = f"; beyond them: {more}" if more else ""
            return f"{len(cells)} cells, the header has {len(self.header)}{rest}"
        # Of two columns with the same name, the first counts.
        row = dict(zip(self.header[::-1], cells[::-1], strict=True))
        try:
            return self.trained.molecule(row[self.smiles].strip(), row)
        except DataError as error:
            return str(error)


def predict_graphs(
    trained: TrainedModel, graphs: Sequence[MoleculeGraph | str], form: PredictionForm
) -> list[Found]:
    """Returns the prediction for each molecule. One that is only a reason has no prediction."""
    found = [Found.none(graph if isinstance(graph, str) else "") for graph in graphs]
    molecules = [(place, g) for place, g in enumerate(graphs) if isinstance(g, MoleculeGraph)]
    molecules.sort(key=lambda item: len(item[1].x))  # similar sizes make good batches
    if molecules:
        archive = trained.archive([graph for _, graph in molecules])
        predicted = predict_each(trained, archive, form)
        for (place, _), part in zip(molecules, predicted, strict=True):
            found[place] = part
    return found


def check_header(
    trained: TrainedModel, header: Sequence[str], smiles: str, file: str, advice: str
) -> None:
    """Raises an error if a table has not all columns that a model needs.

    Args:
        trained: The model.
        header: The columns of the table.
        smiles: The column with SMILES.
        file: The name of the table.
        advice: How to choose another column with SMILES.
    """
    if smiles not in header:
        reason = unknown(f"column '{smiles}'", smiles, header)
        raise DataError(Problem(file, f"{reason}; {advice}", 1))
    for name in columns(trained.input_format.descriptors):
        if name not in header:
            reason = unknown(f"column '{name}'", name, header)
            raise DataError(Problem(file, f"{reason}; the model needs this descriptor", 1))


def predict_table(
    trained: TrainedModel,
    path: Path,
    out: Path,
    smiles: str,
    form: PredictionForm,
    cell: Callable[[str], str] = str,
    pool: Pool = HERE,
    reporter: Reporter | None = None,
) -> PredictionCounts:
    """Predicts for a table of molecules and writes it with the predictions.

    If a process that did the same was killed, continues where it stopped.

    Args:
        trained: The model.
        path: The table.
        out: The file to write: CSV or TSV, which may end in ``.gz``.
        smiles: The column with SMILES.
        form: The columns to add.
        cell: Applied to every cell that is written.
        pool: Where to predict. A short table needs one process only, which is this one.
        reporter: Reports the progress.
    """
    reporter = reporter or Reporter()
    with open_rows(path, trained.limits, keep_bad=True) as table:
        header = table.header
        count = table.count
        if count is None:  # about as many: a cell may hold line breaks
            count = max(count_lines(path, trained.limits) - 1, 0)
        check_header(trained, header, smiles, str(path), "choose one with --smiles")
        if trained.target.of_nodes:
            reason = "the model makes predictions for nodes; give an archive of graphs"
            raise DataError(f"{path}: {reason}")
        trained.check_molecules()
        predictor = RowPredictor(trained, form, smiles, header)
        names = predictor.names()
        bounds = None if form.bounds is None else form.bounds.tolist()
        written = PartialFile(out, _key(trained, path, names, smiles, bounds, cell("=")))
        with closing(written), reporter.step("predicting", count, unit="rows") as step:
            if written.rows:
                reporter.say(f"{written.partial}: continuing after {written.rows} rows")
                step.advance(written.rows)
            else:
                written.append(encoded(out, [names], cell), 0, 0)
            rest = itertools.islice((row for _, row in table.rows), written.rows, None)
            for rows in _predicted(predictor, _chunks(rest), pool if count > _MANY else HERE):
                predicted = sum(row[-1] == "" for row in rows)
                written.append(encoded(out, rows, cell), len(rows), predicted)
                step.advance(len(rows))
            written.finish()
    return PredictionCounts(written.rows, written.predicted)


def _chunks(rows: Iterator[list[str]]) -> Iterator[Rows]:
    """Yields pieces of work. Those with long cells have fewer rows."""
    chunk: Rows = []
    length = 0
    for row in rows:
        chunk.append(row)
        length += sum(map(len, row))
        if len(chunk) == CHUNK or length > _CHARACTERS:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def _predicted(predictor: RowPredictor, chunks: Iterator[Rows], pool: Pool) -> Iterator[Rows]:
    """Predicts for chunks of rows, in order, in several processes.

    On the CPU, each process does everything. A GPU predicts in this process, while the others
    prepare graphs for it.
    """
    if pool == HERE:
        yield from map(predictor, chunks)
        return
    on_cpu = predictor.trained.device.type == "cpu"
    work = predictor if on_cpu else predictor.on_cpu().featurize
    workers = pool.open(_start_worker)
    waiting: deque[tuple[Rows, Future[Any]]] = deque()
    try:
        for rows in chunks:
            waiting.append((rows, workers.submit(work, rows)))
            while len(waiting) > 2 * pool.size:
                first, future = waiting.popleft()
                yield future.result() if on_cpu else predictor.finish(first, future.result())
        for first, future in waiting:
            yield future.result() if on_cpu else predictor.finish(first, future.result())
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed, perhaps for lack of memory; run the same command to "
            "continue, with fewer  --workers"
        ) from None
    finally:
        workers.shutdown(wait=False, cancel_futures=True)


def _start_worker() -> None:
    follow_parent()
    torch.set_num_threads(1)


def _key(trained: TrainedModel, path: Path, *options: object) -> str:
    """Returns what identifies this work: the model, the table and the options."""
    told = path.stat()
    source = [str(path.resolve()), told.st_size, told.st_mtime_ns]
    model = trained.model
    digests = [weights_digest(dict(model.state_dict())), weights_digest(vars(trained.reference))]
    targets = model.targets if isinstance(model, Ensemble) else (trained.target,)
    settings = [*targets, trained.input_format, model.config]
    described = [*(part.to_dict() for part in settings), vars(trained.limits), __version__]
    text = json.dumps([digests, described, source, options])
    return hashlib.sha256(text.encode()).hexdigest()


def _free_names(names: list[str], taken: Sequence[str]) -> list[str]:
    free: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken or candidate in free:
            candidate, number = f"{name}_{number}", number + 1
        free.append(candidate)
    return free
