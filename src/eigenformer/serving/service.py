"""What a server does with molecules: predicts, draws and explains, in one thread."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from eigenformer.analysis.drawing import draw_smiles
from eigenformer.analysis.explanation import Explanation, explain_molecule
from eigenformer.config import ConfigError
from eigenformer.data.descriptors import columns
from eigenformer.data.errors import DataError, placed
from eigenformer.data.text_rows import rows_in_memory
from eigenformer.models import Eigenformer
from eigenformer.pages import explain_page
from eigenformer.pages.graph_svg import molecule_picture
from eigenformer.serving.joined_work import JoinedWork
from eigenformer.trained_model import TrainedModel
from eigenformer.training.found import Found
from eigenformer.training.output import encoded
from eigenformer.training.prediction_form import PredictionForm
from eigenformer.training.table_prediction import RowPredictor, check_header, find_graphs

LEVEL = 0.9
"""The level of intervals, unless another one is given."""

_TABLE = "the table"
_CSV = Path("predictions.csv")

Row = tuple[RowPredictor, list[str]]


@dataclass(frozen=True, eq=False)
class MoleculeRows:
    """Rows to predict for.

    Args:
        predictor: Knows the columns and the model.
        rows: The cells of each row.
    """

    predictor: RowPredictor
    rows: list[list[str]]

    def csv(self, found: Sequence[Found]) -> bytes:
        """Returns the rows with their predictions, as ``eigenformer predict`` writes them."""
        complete = self.predictor.complete(self.rows, found).text()
        return encoded(_CSV, [self.predictor.names(), *complete])


class Service:
    """A trained model that answers requests for molecules.

    Everything is computed in one thread, which predicts for several requests in one pass.

    Args:
        trained: A model that was trained on molecules from SMILES.
        level: The level of intervals (default: :data:`LEVEL`, if the model allows it).
        novelty: Whether predictions say how unlike the training set a molecule is.
    """

    def __init__(
        self, trained: TrainedModel, level: float | None = None, novelty: bool = False
    ) -> None:
        if trained.target.of_nodes:
            raise DataError(f"{trained.name}: the model makes predictions for nodes")
        trained.check_molecules()
        self.trained = trained
        self.level = _usual_level(trained) if level is None else level
        self.form = PredictionForm.of(trained, self.level, novelty)
        self._work: JoinedWork[Row, Found] = JoinedWork(
            self._predict, most_requests=trained.limits.requests
        )

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The columns, beside the SMILES, without which the model cannot predict."""
        return columns(self.trained.input_format.descriptors)

    @property
    def has_heads(self) -> bool:
        """Whether there are heads to show for a SMILES."""
        return isinstance(self.trained.alone().model, Eigenformer) and not self.needed_columns

    def molecules(self, smiles: Sequence[str]) -> MoleculeRows:
        """Returns rows of SMILES. Raises an error if the model needs more, or if there are many."""
        self.trained.limits.check("request_rows", len(smiles), "number of molecules")
        if self.needed_columns:
            names = ", ".join(f"'{name}'" for name in self.needed_columns)
            raise DataError(f"the model also needs the columns {names}: send a table")
        column = self.trained.input_format.smiles
        return MoleculeRows(self._predictor(column, [column]), [[text] for text in smiles])

    def table(self, data: bytes, smiles: str | None = None) -> Future[MoleculeRows]:
        """Reads a CSV table.

        Args:
            data: The table as text in UTF-8, with a header.
            smiles: The column with SMILES (default: as in training).
        """
        return self._work.call(lambda: self._read(data, smiles))

    def predict(self, rows: MoleculeRows) -> Future[list[Found]]:
        """Returns the prediction for each row, or the reason why it has none."""
        return self._work.submit([(rows.predictor, cells) for cells in rows.rows])

    def picture(self, smiles: str) -> Future[str]:
        """Returns a drawing of a molecule as an SVG document."""
        limits = self.trained.limits
        return self._work.call(lambda: molecule_picture(draw_smiles(smiles, limits), smiles))

    def explain(self, smiles: str) -> Future[Explanation]:
        """Returns where the heads look in a molecule."""
        return self._work.call(lambda: self._explanation(smiles))

    def explain_page(self, smiles: str) -> Future[str]:
        """Returns the page of ``eigenformer explain``."""
        return self._work.call(lambda: explain_page(self._explanation(smiles)))

    def close(self, wait: bool = True) -> None:
        """Ends the thread after what it is doing now. All requests fail at once."""
        self._work.close(wait)

    def _read(self, data: bytes, smiles: str | None) -> MoleculeRows:
        limits = self.trained.limits
        column = smiles or self.trained.input_format.smiles
        with placed(_TABLE):
            stream = rows_in_memory(_TABLE, data, limits, keep_bad=True)
            check_header(self.trained, stream.header, column, _TABLE, "name it in the request")
        rows = []
        for _, cells in stream.rows:
            rows.append(cells)
            limits.check("request_rows", len(rows), "number of rows")
        return MoleculeRows(self._predictor(column, stream.header), rows)

    def _explanation(self, smiles: str) -> Explanation:
        if not self.has_heads:
            raise DataError("the model has no attention heads that can be shown for a SMILES")
        return explain_molecule(self.trained, smiles)

    def _predictor(self, smiles: str, header: list[str]) -> RowPredictor:
        return RowPredictor(self.trained, self.form, smiles, header)

    def _predict(self, rows: list[Row]) -> list[Found]:
        graphs = [predictor.featurize([cells])[0] for predictor, cells in rows]
        return find_graphs(self.trained, graphs, self.form)


def _usual_level(trained: TrainedModel) -> float | None:
    try:
        trained.bounds(LEVEL)
    except ConfigError:
        return None
    return LEVEL
