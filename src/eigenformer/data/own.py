"""The user's own graphs: how they are to be read and split."""

from __future__ import annotations

from dataclasses import dataclass

from eigenformer.config import ConfigError, Settings
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.splits import (
    FRACTIONS,
    check_fractions,
    random_split,
    scaffold_split,
    stratified_split,
)
from eigenformer.data.tables import Rejected
from eigenformer.options import SplitBy, TargetKind


@dataclass(frozen=True)
class OwnData(Settings):
    """How to read a table of molecules, three plain tables, a folder of graphs or of pictures.

    Args:
        smiles: The column with SMILES.
        targets: The columns to predict: of the table of molecules, of ``graphs``, of ``nodes``.
        identifier: A column whose values must not repeat, to name molecules by.
        split_column: A column that says ``train``, ``val`` or ``test``.
        split_by: ``random``, ``stratified``, ``scaffold``, or ``column`` for the split that the
            data carries, if it carries one.
        fractions: Sizes of train, val and test.
        seed: Of the split.
        task: What the targets are; None to tell by their values.
        featurizer: How molecules become graphs: ``ogb`` or ``zinc``.
        undirected: For plain tables: edges go both ways, also those that are listed in one only.
    """

    smiles: str = "smiles"
    targets: tuple[str, ...] = ()
    identifier: str | None = None
    split_column: str | None = None
    split_by: SplitBy = "column"
    fractions: tuple[float, ...] = FRACTIONS
    seed: int = 0
    task: TargetKind | None = None
    featurizer: str = "ogb"
    undirected: bool = False

    def check(self) -> None:
        try:
            check_fractions(self.fractions)
        except DataError as error:
            raise ConfigError(str(error)) from None
        if self.split_by != "column" and self.split_column is not None:
            raise ConfigError(f"split_by: '{self.split_by}' and split_column exclude each other")
        if self.split_by == "column" and (self.fractions != FRACTIONS or self.seed):
            raise ConfigError("fractions, seed: of a split, but none is asked for (split_by)")
        if self.seed < 0:
            raise ConfigError(f"seed: must not be negative, got {self.seed}")
        for name in self.targets:
            if self.targets.count(name) > 1:
                raise ConfigError(f"targets: '{name}' is named twice")


@dataclass(frozen=True)
class Import:
    """What was read: the graphs, and the rows that gave none."""

    archive: GraphArchive
    rejected: tuple[Rejected, ...] = ()


def split_archive(archive: GraphArchive, options: OwnData) -> GraphArchive:
    """The archive with the split that was asked for."""
    if options.split_by == "column":
        return archive
    if options.split_by == "random":
        split = random_split(len(archive), options.fractions, options.seed)
    elif options.split_by == "stratified":
        field = archive.fields.get("y")
        if field is None or field.level != "graph":
            raise DataError("split_by: 'stratified' needs targets of graphs")
        split = stratified_split(field.values, options.fractions, options.seed)
    else:
        texts = archive.fields.get("smiles")
        if texts is None and archive.meta.get("featurizer") not in ("ogb", "zinc"):
            raise DataError("split_by: 'scaffold' needs molecules")
        smiles = archive.names if texts is None else texts.values.tolist()
        if smiles is None:
            raise DataError("split_by: 'scaffold' needs the molecules' SMILES")
        split = scaffold_split(smiles, options.fractions)
    return archive.with_split(split)
