"""What requests and answers look like. The OpenAPI schema is made from these classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from eigenformer.analysis.drawing import names_of
from eigenformer.analysis.explanation import Explanation
from eigenformer.models import Eigenformer
from eigenformer.serving.service import MoleculeRows, Service
from eigenformer.training.found import Found


def _check_text(text: str) -> str:
    """Raises an error for half of a character, which JSON can escape and nothing can print."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("not valid Unicode") from None
    return text


Text = Annotated[str, AfterValidator(_check_text)]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="The reason, in one sentence.")


class Molecules(BaseModel):
    """Molecules to predict for."""

    model_config = ConfigDict(extra="forbid")

    smiles: list[Text] = Field(
        description="A SMILES for each molecule.", examples=[["CCO", "CC(=O)Nc1ccc(O)cc1"]]
    )


class PredictQuery(BaseModel):
    """How to answer."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "csv"] = Field(
        "json", description="How to write the predictions: json or csv."
    )


class TableQuery(PredictQuery):
    """How to read a table, and how to answer."""

    smiles: str | None = Field(None, description="The column with SMILES, if not as in training.")


class MoleculeQuery(BaseModel):
    """One molecule."""

    model_config = ConfigDict(extra="forbid")

    smiles: str = Field(description="A SMILES.", examples=["CCO"])


class Row(BaseModel):
    """The prediction for one molecule."""

    smiles: str = Field(description="The SMILES, as it was given.")
    cells: list[str] = Field(description="The other cells of the row.")
    values: dict[str, float | str] | None = Field(
        description="The prediction, or null if there is none."
    )
    reason: str | None = Field(description="Why there is no prediction, or null if there is one.")


class Predictions(BaseModel):
    """Predictions, in the order of the molecules."""

    model: str = Field(description="The name of the model.")
    columns: list[str] = Field(description="The names of the other cells.")
    rows: list[Row] = Field(description="One row per molecule.")

    @classmethod
    def of(cls, service: Service, given: MoleculeRows, found: Sequence[Found]) -> Predictions:
        """Returns what was found for the rows of a request."""
        header = given.predictor.header
        place = header.index(given.predictor.smiles)
        rows = []
        for cells, part in zip(given.rows, found, strict=True):
            full = [*cells, *[""] * (len(header) - len(cells))][: len(header)]
            values = service.form.values(part)
            smiles = full.pop(place)
            rows.append(Row(smiles=smiles, cells=full, values=values, reason=part.reason or None))
        others = [name for at, name in enumerate(header) if at != place]
        return cls(model=service.trained.name, columns=others, rows=rows)


class Model(BaseModel):
    """What the model predicts, and what it takes."""

    name: str = Field(description="The name of the model.")
    target: str = Field(description="What is predicted, in words.")
    values: list[str] = Field(description="The names of the values of a prediction.")
    level: float | None = Field(description="The level of intervals, or null if there are none.")
    smiles: str = Field(description="The column of a table with SMILES, unless another is named.")
    needed: list[str] = Field(description="Further columns that a table must have.")
    layers: int = Field(description="Layers with attention heads; 0 if there are none to show.")
    heads: int = Field(description="Heads per layer.")
    request_rows: int = Field(description="The largest number of molecules in a request.")
    request_bytes: int = Field(description="The largest size of a request.")
    atoms: int = Field(description="The largest number of atoms in a molecule.")

    @classmethod
    def of(cls, service: Service) -> Model:
        """Returns what a service offers."""
        trained, limits = service.trained, service.trained.limits
        alone = trained.alone().model
        shown = alone.config if service.has_heads and isinstance(alone, Eigenformer) else None
        return cls(
            name=trained.name,
            target=trained.target.describe(),
            values=service.form.header(),
            level=service.level,
            smiles=trained.input_format.smiles,
            needed=list(service.needed_columns),
            layers=0 if shown is None else shown.layers,
            heads=0 if shown is None else shown.heads,
            request_rows=limits.request_rows,
            request_bytes=limits.request_bytes,
            atoms=limits.atoms,
        )


class Attention(BaseModel):
    """Where the heads look in one molecule."""

    model: str = Field(description="The name of the model.")
    smiles: str = Field(description="The SMILES.")
    atoms: list[str] = Field(description="The name of each atom, in the order of the SMILES.")
    weights: list[list[list[list[float]]]] = Field(
        description="The weight that an atom gives another, by layer, head, atom and other atom."
    )

    @classmethod
    def of(cls, found: Explanation) -> Attention:
        """Returns the attention of an explanation, with four digits after the point."""
        assert found.attention is not None  # without heads, the service explains nothing
        return cls(
            model=found.model,
            smiles=found.view.name,
            atoms=list(names_of(found.view.drawing.labels)),
            weights=found.attention.round(4).tolist(),
        )
