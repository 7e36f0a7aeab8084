"""Predictions for new graphs: one for every row that came in, in its place."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenformer.config import DataConfig
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.graph_tables import read_graph_tables
from eigenformer.data.molecules import (
    MoleculeGraph,
    featurizer,
    molecule_archive,
    parse_smiles,
    zinc_words,
)
from eigenformer.data.own import OwnData
from eigenformer.data.reading import form_of, read_own
from eigenformer.data.spectra import memory_spectra
from eigenformer.data.tables import is_table, read_rows
from eigenformer.files import write_atomic
from eigenformer.model_folder import ModelCard, ModelFolderError, load_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.nearest import unknown
from eigenformer.targets import Target
from eigenformer.training.data_module import EpochBatches, graph_loader
from eigenformer.training.features import check_columns, featurizer_of, unseen_atoms
from eigenformer.training.planning import try_model

_CHUNK = 1024
_REASON = "reason"


@dataclass(frozen=True)
class PredictionCounts:
    """How many rows there were, and how many of them got a prediction."""

    rows: int
    predicted: int


def predict_folder(
    model_path: str | Path,
    source: str | Path,
    out: str | Path,
    smiles: str | None = None,
    escape_formulas: bool = False,
) -> PredictionCounts:
    """Predicts for a table of molecules or for graphs in any form, and writes a CSV file.

    Args:
        model_path: A folder with a model.
        source: The table, or an archive or folder of graphs.
        out: The CSV file to write.
        smiles: The column with SMILES, where it is not called as in training.
        escape_formulas: Whether cells that a spreadsheet would take for formulas begin with ``'``.
    """
    model, card = load_model(model_path)
    if card.outputs is None or card.data is None:
        raise ModelFolderError(f"{model_path}: the model does not say what it predicts")
    source, out = Path(source), Path(out)
    if not source.exists():
        raise DataError(Problem(str(source), "there is no such file or folder"))
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_dir():  # before any long work
        raise DataError(Problem(str(out), "a folder; give the name of the file to write"))
    if not os.access(out.parent, os.W_OK):
        raise DataError(Problem(str(out), "cannot be written to"))
    if is_table(source):
        header, rows = _predict_table(model, card, source, smiles or card.data.smiles)
    else:
        header, rows = _predict_archive(model, card, source)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter="\t" if out.suffix == ".tsv" else ",")
    cell = without_formula if escape_formulas else str
    writer.writerow(map(cell, header))
    count = predicted = 0
    for row in rows:
        writer.writerow(map(cell, row))
        count += 1
        predicted += row[-1] == ""
    write_atomic(out, stream.getvalue().encode("utf-8"))
    return PredictionCounts(count, predicted)


def without_formula(cell: str) -> str:
    """The cell as text for spreadsheets, which compute what begins with ``=``, ``+``, ``-``, ``@``.

    Numbers stay numbers.
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


@torch.no_grad()
def predict_graphs(
    model: Eigenformer,
    archive: GraphArchive,
    outputs: Target,
    batch_size: int = 64,
    frequencies: int | None = None,
) -> Tensor:
    """Predictions in the user's units: numbers; or probabilities, of labels or of classes."""
    model.eval()
    dataset = GraphDataset(archive, memory_spectra(archive, frequencies))
    loader = graph_loader(dataset, EpochBatches(len(dataset), batch_size))
    parts = [model(batch) for batch in loader]
    return outputs.in_units(torch.cat(parts) if parts else torch.zeros(0, outputs.width))


def in_units(outputs: Target, predictions: Tensor) -> Tensor:
    """The former name of :meth:`Target.in_units`."""
    return outputs.in_units(predictions)


def _predict_table(
    model: Eigenformer, card: ModelCard, path: Path, smiles: str
) -> tuple[list[str], Iterator[list[str]]]:
    assert card.outputs is not None
    assert card.data is not None
    header, rows = _read_rows(path)
    if smiles not in header:
        reason = unknown(f"column '{smiles}'", smiles, header)
        raise DataError(Problem(str(path), f"{reason}; say --smiles", 1))
    if card.outputs.level == "node":
        raise DataError(f"{path}: the model predicts for nodes; give an archive of graphs")
    _check_molecules(model, card)
    added = _free_names([*card.outputs.header(), _REASON], header)
    return [*header, *added], _predict_rows(model, card, rows, header.index(smiles), len(header))


def _predict_rows(
    model: Eigenformer,
    card: ModelCard,
    rows: list[tuple[list[str], str]],
    column: int,
    width: int,
) -> Iterator[list[str]]:
    """Chunk by chunk: each row as it came, its prediction, and why it has none."""
    assert card.outputs is not None
    assert card.data is not None
    outputs, features = card.outputs, featurizer_of(card.data)
    names = outputs.header()
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        graphs: list[MoleculeGraph] = []
        reasons: list[str] = []
        for cells, problem in chunk:
            reason = problem
            if not reason:
                try:
                    graphs.append(_molecule(cells[column].strip(), card.data))
                except DataError as error:
                    reason = str(error)
            reasons.append(reason)
        predictions: Iterator[list[str]] = iter(())
        if graphs:
            archive = molecule_archive(graphs, features)
            values = predict_graphs(model, archive, outputs, frequencies=card.data.frequencies)
            predictions = iter([outputs.cells(row) for row in values.numpy()])
        for (cells, _), reason in zip(chunk, reasons, strict=True):
            shown = [*cells, *[""] * (width - len(cells))][:width]
            yield [*shown, *([""] * len(names) if reason else next(predictions)), reason]


def _molecule(smiles: str, data: DataConfig) -> MoleculeGraph:
    graph = featurizer(featurizer_of(data))(smiles)
    if unseen := unseen_atoms(data, graph.x):
        words = zinc_words(parse_smiles(smiles))
        which = ", ".join(sorted({f"'{words[atom]}'" for atom in unseen}))
        raise DataError(f"'{smiles}': ZINC, on which the model was trained, has no atom {which}")
    return graph


def _predict_archive(
    model: Eigenformer, card: ModelCard, path: Path
) -> tuple[list[str], Iterator[list[str]]]:
    assert card.outputs is not None
    assert card.data is not None
    outputs = card.outputs
    archive = GraphArchive.open(path) if is_archive(path) else _read_unlabelled(path, card)
    check_columns(card, archive, path)
    values, reasons = _predict_each(model, archive, outputs, card.data.frequencies)
    graph_names = archive.names or [str(i) for i in range(len(archive))]
    nodes, names = outputs.level == "node", outputs.header()
    header = ["graph", *(["node"] if nodes else []), *names, _REASON]

    def rows() -> Iterator[list[str]]:
        for graph, name in enumerate(graph_names):
            for node in range(int(archive.num_nodes[graph]) if nodes else 1):
                place = [name, str(node)] if nodes else [name]
                if reasons[graph]:
                    yield [*place, *[""] * len(names), reasons[graph]]
                else:
                    yield [*place, *outputs.cells(values[graph][node]), ""]

    return header, rows()


def _predict_each(
    model: Eigenformer, archive: GraphArchive, outputs: Target, frequencies: int | None
) -> tuple[list[np.ndarray], list[str]]:
    """Each graph's prediction, or why the model cannot take it."""
    sizes = outputs.rows(archive.num_nodes.tolist())
    try:
        values = predict_graphs(model, archive, outputs, frequencies=frequencies)
        return [part.numpy() for part in values.split(sizes)], [""] * len(archive)
    except ValueError as error:
        problem = error
    found, reasons = [], []
    for graph in range(len(archive)):
        part, reason = np.zeros((0, 0)), ""
        try:
            alone = archive.subset([graph])
            part = predict_graphs(model, alone, outputs, frequencies=frequencies).numpy()
        except ValueError as error:
            reason = str(error).removeprefix("graph 0 of the batch: ")
        found.append(part)
        reasons.append(reason)
    if all(reasons):
        raise problem
    return found, reasons


def _read_unlabelled(path: Path, card: ModelCard) -> GraphArchive:
    """Graphs without their targets, which are ignored."""
    assert card.data is not None
    if form_of(path) != "tables":
        return read_own(path).archive
    options = OwnData(undirected=card.data.undirected)
    return read_graph_tables(path, options, ignored=card.data.targets)


def _check_molecules(model: Eigenformer, card: ModelCard) -> None:
    """Whether the model was trained on what a SMILES becomes."""
    assert card.data is not None
    archive = molecule_archive([_molecule("CO", card.data)], featurizer_of(card.data))
    try:
        spectra = memory_spectra(archive, card.data.frequencies)
        try_model(model.config, GraphDataset(archive, spectra))
    except ValueError as error:
        raise DataError(f"the model was not trained on molecules from SMILES: {error}") from None


def _free_names(names: list[str], taken: Sequence[str]) -> list[str]:
    free: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken or candidate in free:
            candidate, number = f"{name}_{number}", number + 1
        free.append(candidate)
    return free


def _read_rows(path: Path) -> tuple[list[str], list[tuple[list[str], str]]]:
    """The header, and every row with its cells as they are and what is wrong with it, if anything.

    More patient than a table: a row of another width or an empty line stays a row.
    """
    header, rows, _ = read_rows(path)
    found = []
    for row in rows:
        reason = ""
        if not any(cell.strip() for cell in row):
            reason = "the row is empty"
        elif len(row) != len(header):
            reason = f"{len(row)} cells, the header has {len(header)}"
        found.append((row, reason))
    return header, found
