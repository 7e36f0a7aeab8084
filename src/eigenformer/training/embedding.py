"""Writes the embeddings of graphs in files: in the order of the input, with every row of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.data.errors import DataError
from eigenformer.data.tables import is_table
from eigenformer.files import write_atomic
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import Reporter
from eigenformer.training.embedding_form import Embedded, EmbeddingForm
from eigenformer.training.embedding_output import NpzOutput, ParquetOutput
from eigenformer.training.output import Output, PredictionCounts, TextOutput, encoded, is_text
from eigenformer.training.prediction import check_places, of_archive, without_formula
from eigenformer.training.table_prediction import predict_table

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel

_BINARY = (".parquet", ".npz")


def embed_file(
    trained: TrainedModel,
    source: str | Path,
    out: str | Path,
    nodes: bool = False,
    smiles: str | None = None,
    escape_formulas: bool = False,
    pool: Pool = HERE,
    reporter: Reporter | None = None,
) -> PredictionCounts:
    """Writes the embeddings of a table of molecules or of graphs in any format.

    Those of an ensemble are those of its first member.

    Args:
        trained: The model.
        source: The table, or an archive or folder of graphs.
        out: The file to write: ``.parquet``, ``.npz``, or ``.csv``, ``.tsv`` or ``.txt``, which may
            end in ``.gz``.
        nodes: Whether to write the embeddings of nodes instead of graphs.
        smiles: The column with SMILES, if its name is not the same as in training.
        escape_formulas: Whether to put ``'`` before cells of a text file that spreadsheets would
            read as formulas.
        pool: Where to compute for a long table.
        reporter: Reports the progress on a table.
    """
    trained = trained.alone()
    form = EmbeddingForm.of(trained, nodes)
    source, out = Path(source), Path(out)
    check_places(source, out, "embeddings", _BINARY)  # before any long work
    if escape_formulas and not is_text(out):
        raise DataError(f"{out}: only text files have formulas to escape")
    cell = without_formula if escape_formulas else str

    def open_output(names: list[str], key: str) -> Output[Embedded]:
        if out.suffix.lower() == ".parquet":
            return ParquetOutput(out, names, form.width)
        if out.suffix.lower() == ".npz":
            return NpzOutput(out, form.width, nodes)
        return TextOutput(out, names, f"{key}{cell('=')}", cell)

    if is_table(source):
        column = smiles or trained.input_format.smiles
        return predict_table(trained, source, column, form, open_output, pool, reporter)
    names, piece = of_archive(trained, source, form)
    if is_text(out):
        write_atomic(out, encoded(out, [names, *piece.text()], cell))
        return piece.counts
    with closing(open_output(names, "")) as output:
        output.append(piece)
        output.finish()
    return piece.counts
