"""Computes for a table of molecules of any length: in chunks, on all cores, and resumable."""

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
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch

from eigenformer import __version__
from eigenformer.data.archive import GraphArchive
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
from eigenformer.training.found import Found
from eigenformer.training.output import REASON, Output, Piece, PredictionCounts, Rows

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel

CHUNK = 1024
"""Rows per piece of work. Molecules are sorted by size within it."""
# With fewer rows, the work is done before other processes have started.
_MANY = 4 * CHUNK
# A piece with more than that is complete before it has all its rows.
_CHARACTERS = 1 << 24

Made = TypeVar("Made", bound=Piece)
MadeOnly = TypeVar("MadeOnly", bound=Piece, covariant=True)


class Form(Protocol[MadeOnly]):
    """What is computed for each graph, and the columns that it is written to."""

    def header(self) -> list[str]:
        """Returns the names of the columns, without that of the reason."""

    def key(self) -> list[object]:
        """Returns what the values depend on beside the model, the table and the columns."""

    def each(self, trained: TrainedModel, archive: GraphArchive) -> list[Found]:
        """Returns what is found for each graph."""

    def piece(
        self, rows: Rows, found: Sequence[Found], names: Sequence[Sequence[str]] | None = None
    ) -> MadeOnly:
        """Returns rows with what was found, one per graph or one per node."""


@dataclass(frozen=True, eq=False)
class RowPredictor(Generic[Made]):
    """Computes for rows of a table.

    Args:
        trained: The model.
        form: What to compute.
        smiles: The column with SMILES.
        header: The columns of the table.
    """

    trained: TrainedModel
    form: Form[Made]
    smiles: str
    header: list[str]

    def __call__(self, rows: Rows) -> Made:
        """Returns each row with what is found, or with the reason why there is nothing."""
        return self.finish(rows, self.featurize(rows))

    def featurize(self, rows: Rows) -> list[MoleculeGraph | str]:
        """Returns the graph of each row, or the reason why it has none."""
        return [self._graph(cells) for cells in rows]

    def finish(self, rows: Rows, graphs: Sequence[MoleculeGraph | str]) -> Made:
        """Computes for the graphs, and returns the complete rows."""
        return self.complete(rows, find_graphs(self.trained, graphs, self.form))

    def complete(self, rows: Rows, found: Sequence[Found]) -> Made:
        """Returns rows with as many cells as the header has, and what was found for them."""
        width = len(self.header)
        shown = [[*cells, *[""] * (width - len(cells))][:width] for cells in rows]
        return self.form.piece(shown, found)

    def names(self) -> list[str]:
        """Returns the columns of a complete row. No two new ones have the same name."""
        return [*self.header, *_free_names([*self.form.header(), REASON], self.header)]

    def on_cpu(self) -> RowPredictor[Made]:
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


def find_graphs(
    trained: TrainedModel, graphs: Sequence[MoleculeGraph | str], form: Form[Made]
) -> list[Found]:
    """Returns what is found for each molecule. For one that is only a reason, there is nothing."""
    found = [Found.none(graph if isinstance(graph, str) else "") for graph in graphs]
    molecules = [(place, g) for place, g in enumerate(graphs) if isinstance(g, MoleculeGraph)]
    molecules.sort(key=lambda item: len(item[1].x))  # similar sizes make good batches
    if molecules:
        computed = form.each(trained, trained.archive([graph for _, graph in molecules]))
        for (place, _), part in zip(molecules, computed, strict=True):
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
    smiles: str,
    form: Form[Made],
    open_output: Callable[[list[str], str], Output[Made]],
    pool: Pool = HERE,
    reporter: Reporter | None = None,
) -> PredictionCounts:
    """Computes for a table of molecules and writes it with what was found.

    If a process that did the same was killed, continues where it stopped, if the output can.

    Args:
        trained: The model.
        path: The table.
        smiles: The column with SMILES.
        form: What to compute.
        open_output: Opens the output, given the names of its columns and a key that identifies the
            work.
        pool: Where to compute. A short table needs one process only, which is this one.
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
        output = open_output(names, _key(trained, path, names, smiles, form.key()))
        with closing(output), reporter.step("predicting", count, unit="rows") as step:
            if output.rows:
                reporter.say(f"{output.out}: continuing after {output.rows} rows")
                step.advance(output.rows)
            rest = itertools.islice((row for _, row in table.rows), output.rows, None)
            for piece in _predicted(predictor, _chunks(rest), pool if count > _MANY else HERE):
                output.append(piece)
                step.advance(piece.counts.rows)
            output.finish()
    return PredictionCounts(output.rows, output.predicted)


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


def _predicted(predictor: RowPredictor[Made], chunks: Iterator[Rows], pool: Pool) -> Iterator[Made]:
    """Computes for chunks of rows, in order, in several processes.

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
