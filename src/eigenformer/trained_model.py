"""A trained model, ready to predict: its weights, its target and its input format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.config import BenchmarkData, ConfigError, DataConfig, InputFormat, OwnData
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.encodings import with_encoding_in_memory
from eigenformer.data.errors import DataError
from eigenformer.data.fields import SPLITS
from eigenformer.data.molecule_table import with_columns
from eigenformer.data.molecules import (
    MoleculeGraph,
    featurizer,
    molecule_archive,
    parse_smiles,
    zinc_words,
)
from eigenformer.data.spectra import memory_spectra
from eigenformer.data.tables import is_table
from eigenformer.data.workspace import Workspace
from eigenformer.devices import resolve_device
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.model_folder import ModelCard, ModelFolderError, load_model, read_ensemble
from eigenformer.models import Eigenformer, Model
from eigenformer.models.base import no_spectral_attention
from eigenformer.models.ensemble import Ensemble
from eigenformer.nearest import unknown
from eigenformer.options import Backend
from eigenformer.targets import Calibration, Target
from eigenformer.training.features import check_columns, unseen_atoms
from eigenformer.training.loading import TrainingData, load_data
from eigenformer.training.novelty import Reference, embed
from eigenformer.training.planning import check_fit, try_model
from eigenformer.training.predicting import (
    evaluate,
    evaluate_each,
    model_device,
    predict_batches,
)
from eigenformer.training.run_folder import CONFIG, RunFolder


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for several graphs.

    Args:
        values: Numbers in the user's units, or probabilities, ``[rows, *]``.
        spread: The standard deviation of the members of an ensemble, of the same shape; None for a
            single model.
    """

    values: Tensor
    spread: Tensor | None = None


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model with everything needed to predict.

    Args:
        name: The name of the model.
        model: The model, in evaluation mode and on its device.
        target: What the model predicts.
        input_format: How raw inputs become graphs for the model.
        data: The data the model was trained on.
        batch_size: The batch size used in training. With it, metrics agree with those of training
            to the last bit.
        frozen_norms: Whether the batch norms kept their statistics fixed at the end of training.
        limits: How large the inputs may be.
        calibration: How wrong the model was on graphs that it was not trained on.
        reference: What the model has seen in training.
        data_digest: A checksum of the data that the model was trained on; empty if unknown.
    """

    name: str
    model: Model
    target: Target
    input_format: InputFormat
    data: DataConfig
    batch_size: int = 32
    frozen_norms: bool = False
    limits: Limits = DEFAULT_LIMITS
    calibration: Calibration = field(default_factory=Calibration)
    reference: Reference = field(default_factory=Reference.none)
    data_digest: str = ""

    @classmethod
    def open(
        cls,
        path: str | Path,
        device: str | torch.device = "cpu",
        backend: Backend = "auto",
        limits: Limits = DEFAULT_LIMITS,
    ) -> TrainedModel:
        """Opens the model in a folder.

        Args:
            path: A run folder, any folder with ``model.safetensors`` and ``model.json``, or an
                ensemble.
            device: The device to compute on: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
            backend: How attention is computed.
            limits: How large the model and its inputs may be.
        """
        place = resolve_device(device)
        model, card = load_model(path, backend, limits)
        data = _trained_on(Path(path), card)
        if card.target is None or data is None:
            raise ModelFolderError(f"{path}: the model does not say what it predicts")
        training = card.training
        return cls(
            Path(path).resolve().name,
            model.to(place),
            card.target,
            card.input_format,
            data,
            32 if training is None else training.batch_size,
            training is not None and training.epochs_before_freezing < training.epochs,
            limits,
            card.calibration or Calibration(),
            Reference.load(_first(Path(path)), model),
            card.data_digest or "",
        )

    @property
    def device(self) -> torch.device:
        """The device that the model is on."""
        return model_device(self.model)

    def alone(self) -> TrainedModel:
        """Returns the first member of an ensemble, to look into it, and any other model itself."""
        if not isinstance(self.model, Ensemble):
            return self
        name = f"{self.name}, the first of {len(self.model.members)} members"
        return replace(self, name=name, model=self.model.first, calibration=Calibration())

    @property
    def eigenformer(self) -> Eigenformer:
        """The model as an Eigenformer. Raises an error if it is any other network."""
        if not isinstance(self.model, Eigenformer):
            raise ValueError(no_spectral_attention(self.model))
        return self.model

    def default_split(self, dataset: str | None = None) -> str:
        """Returns the split to use by default.

        This is ``test`` for benchmarks and for the data that the model was trained on, where it
        was then, and ``all`` for other data of the user.
        """
        same = dataset is None or dataset in BENCHMARKS or self._trained_with(dataset)
        return "test" if same else "all"

    def _trained_with(self, dataset: str) -> bool:
        """Whether the model was trained on the data at this path."""
        # A run knows the absolute path; a model without its run only a name, which is not enough.
        return isinstance(self.data, OwnData) and os.path.abspath(dataset) == self.data.dataset

    def graphs(
        self,
        workspace: Workspace | None = None,
        split: str | None = None,
        dataset: str | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> GraphDataset:
        """Returns graphs of the data that the model was trained on, or of other data with targets.

        Args:
            workspace: The folders of raw files and prepared graphs (default: taken from the
                environment).
            split: Which graphs to return: ``train``, ``val``, ``test`` or ``all`` (default: see
                :meth:`default_split`).
            dataset: Data to use instead of the training data, or the new location of the training
                data.
            columns: Settings of ``dataset`` that differ from those in training: ``smiles``,
                ``targets``.
        """
        if columns and dataset is None:
            raise ModelFolderError(
                f"{', '.join(columns)}: only for other data; give it with --data"
            )
        config = self.data
        if dataset is not None:
            config = self._other(dataset)
            if columns and isinstance(config, BenchmarkData):
                names = ", ".join(columns)
                raise ModelFolderError(
                    f"{names}: only for your own data; '{dataset}' is a benchmark"
                )
            config = config.replace(**(columns or {}))
        split = split or self.default_split(dataset)
        if split not in (known := (*SPLITS, "all")):  # before any long work
            raise DataError(unknown(f"split '{split}'", split, known))
        workspace = workspace or Workspace.resolve()
        data = load_data(config, workspace, *self.model.config.needs)
        if dataset is None and self.data_digest not in ("", data.digest):
            workspace.reporter.notice(f"{config.dataset}: has changed since the model was trained")
        if dataset is not None:
            check_columns(self.input_format, data.archive, dataset)
            data = self._understood(data)
        # The data's own standardisation differs from the model's.
        check_fit(self.model.config, data, f"the model '{self.name}'")
        graphs = data.dataset(split)
        if not len(graphs):
            raise ModelFolderError(f"{config.dataset}: no graphs in the split '{split}'")
        return graphs

    def evaluate(self, graphs: GraphDataset) -> dict[str, float]:
        """Returns all metrics of the model's target on the given graphs."""
        return evaluate(self.model, graphs, self.target, self.batch_size)

    def evaluate_each(self, graphs: GraphDataset) -> dict[str, dict[str, float]]:
        """Returns the metrics of each of several targets by its name; empty for a single one."""
        return evaluate_each(self.model, graphs, self.target, self.batch_size)

    def predict(
        self,
        graphs: GraphDataset | GraphArchive | Sequence[Data] | Sequence[str],
        batch_size: int = 64,
    ) -> Tensor:
        """Returns predictions: numbers in the user's units, or probabilities of labels or classes.

        Takes the same arguments as :meth:`predictions`.
        """
        return self.predictions(graphs, batch_size).values

    def predictions(
        self,
        graphs: GraphDataset | GraphArchive | Sequence[Data] | Sequence[str],
        batch_size: int = 64,
    ) -> Predictions:
        """Returns predictions, with the spread of an ensemble.

        Args:
            graphs: PyG graphs with their spectra; or an archive, or SMILES if the model was trained
                on molecules from SMILES, whose spectra are then computed.
            batch_size: Graphs per batch.
        """
        found = list(predict_batches(self.model, self._inputs(graphs), batch_size))
        empty = torch.zeros(0, self.model.config.out_channels)
        outputs = torch.cat([part.output for part in found]) if found else empty
        spreads = [part.spread for part in found if part.spread is not None]
        return Predictions(self.target.in_units(outputs), torch.cat(spreads) if spreads else None)

    def embed(
        self,
        graphs: GraphDataset | GraphArchive | Sequence[Data] | Sequence[str],
        nodes: bool = False,
        batch_size: int = 64,
    ) -> Tensor:
        """Returns the representations of graphs before the head, ``[B, d]``, without descriptors.

        Those of an ensemble are those of its first member.

        Args:
            graphs: As for :meth:`predictions`.
            nodes: Whether to return the representations of all nodes instead, ``[Σn, d]``.
            batch_size: Graphs per batch.
        """
        self.check_embedding(nodes)
        model = self.alone().model
        parts = [torch.zeros(0, model.config.hidden_dim, dtype=model.dtype)]
        for found in predict_batches(
            model, self._inputs(graphs), batch_size, return_embedding=True
        ):
            assert found.embedding is not None
            part = found.embedding.nodes if nodes else found.embedding.graphs
            assert part is not None
            parts.append(part)
        return torch.cat(parts)

    def check_embedding(self, nodes: bool) -> None:
        """Raises an error if the model does not have the representations that are asked for."""
        model = self.alone().model
        if type(model).embed is Model.embed:
            raise ValueError(f"{self.name}: {model.config.title} does not tell its embeddings")
        if self.target.of_nodes and not nodes:
            raise ValueError(
                f"{self.name}: predicts for nodes, and has no embeddings of graphs; ask for those "
                f"of nodes (--nodes)"
            )

    def bounds(self, level: float) -> np.ndarray:
        """Returns the bound on the score of each target for intervals of this level.

        Raises an error if the model was not calibrated. See :class:`Calibration`.
        """
        return self.calibration.bounds(level)

    def novelty(self, archive: GraphArchive) -> np.ndarray:
        """Returns how unlike the training set each graph is, ``[B]``.

        This is the share of validation graphs that are nearer to the training set, as the model
        sees them. Raises an error if the model does not know what it was trained on.
        """
        reference = self.check_reference()
        return reference.novelty(embed(self.model, self.dataset(archive))).numpy()

    def check_reference(self) -> Reference:
        """Returns what the model has seen in training. Raises an error if it is unknown."""
        if not self.reference.known:
            raise ModelFolderError(
                f"{self.name}: cannot say what is new to it, because its training did not record "
                f"what it has seen, or the record was altered; train it again"
            )
        return self.reference

    def dataset(self, archive: GraphArchive) -> GraphDataset:
        """Returns the graphs of an archive as model inputs, with all that the model needs."""
        if (encoding := self.model.config.needs.encoding) is not None:
            archive = with_encoding_in_memory(archive, encoding)
        if not self.model.needs_spectrum:
            return GraphDataset(archive)
        return GraphDataset(archive, memory_spectra(archive, self.input_format.num_frequencies))

    def molecules(self, smiles: Sequence[str]) -> GraphArchive:
        """Returns the graphs of molecules, featurised as in training."""
        return self.archive([self.molecule(text) for text in smiles])

    def archive(self, graphs: Sequence[MoleculeGraph]) -> GraphArchive:
        """Returns an archive of molecular graphs."""
        return molecule_archive(graphs, self.featurizer)

    @property
    def featurizer(self) -> str:
        """How a SMILES becomes a graph.

        Raises an error if the model was not trained on molecules from SMILES.
        """
        if self.input_format.featurizer is None:
            raise DataError("the model was not trained on molecules from SMILES")
        return self.input_format.featurizer

    def molecule(self, smiles: str, cells: Mapping[str, str] | None = None) -> MoleculeGraph:
        """Returns the graph of a SMILES.

        Raises an error if the molecule has atoms that the training data does not have.

        Args:
            smiles: The SMILES.
            cells: The row of a table, for a model whose descriptors are columns.
        """
        descriptors = self.input_format.descriptors
        graph = featurizer(self.featurizer, self.limits, descriptors)(smiles)
        graph = with_columns(graph, cells or {}, descriptors)
        if unseen := unseen_atoms(self.input_format, graph.x):
            words = zinc_words(parse_smiles(smiles, self.limits))
            which = ", ".join(sorted({f"'{words[atom]}'" for atom in unseen}))
            name = self.data.name.upper()
            raise DataError(
                f"'{smiles}': the model was trained on {name}, which has no atom {which}"
            )
        return graph

    def check_molecules(self) -> None:
        """Raises an error if the model was not trained on molecules from SMILES."""
        try:
            cells = dict.fromkeys(self.input_format.descriptors, "")
            graphs = self.dataset(self.archive([self.molecule("CO", cells)]))
            try_model(self.model.config, graphs)
        except DataError:
            raise
        except ValueError as error:
            raise DataError(
                f"the model was not trained on molecules from SMILES: {error}"
            ) from None

    def _inputs(
        self, graphs: GraphDataset | GraphArchive | Sequence[Data] | Sequence[str]
    ) -> GraphDataset | Sequence[Data]:
        """Returns graphs with all that the model needs."""
        if not isinstance(graphs, GraphDataset | GraphArchive):
            graphs = self._listed(graphs)
        return self.dataset(graphs) if isinstance(graphs, GraphArchive) else graphs

    def _listed(self, graphs: Sequence[Data] | Sequence[str]) -> GraphArchive | Sequence[Data]:
        """Returns PyG graphs unchanged, and SMILES as an archive."""
        if isinstance(graphs, str | Data) or not isinstance(graphs, Iterable):
            raise DataError(f"expected a list of graphs or SMILES, got one {type(graphs).__name__}")
        items: list[Any] = list(graphs)
        kind = str if items and isinstance(items[0], str) else Data
        for place, item in enumerate(items):
            if not isinstance(item, kind):
                wanted = "a SMILES, like the first" if kind is str else "a PyG graph"
                wanted += "" if place else " or a SMILES"
                got = type(item).__name__
                raise DataError(f"graph {place}: expected {wanted}, got {got}")
        if kind is Data:
            return items
        self.check_molecules()
        return self.molecules(items)

    def _other(self, dataset: str) -> DataConfig:
        """Returns settings for other data. The kind of target is kept and not guessed again."""
        path, expected = Path(dataset), self.input_format
        table = is_table(path)
        # An archive may leave open what kind of target it has.
        asks = table or (is_archive(path) and GraphArchive.open(path).target is None)
        # A limit is for a quick look at the training data. Other data is used in full.
        same = dataset == self.data.dataset or self._trained_with(dataset)
        limit = self.data.limit if same else None
        if dataset in BENCHMARKS:
            if isinstance(self.data, BenchmarkData):
                return self.data.replace(dataset=dataset, limit=limit)
            return BenchmarkData(dataset, num_frequencies=expected.num_frequencies)
        if isinstance(self.data, OwnData):
            config = self.data.replace(dataset=dataset, limit=limit)
        else:
            config = OwnData(
                dataset=dataset,
                num_frequencies=expected.num_frequencies,
                featurizer=self.featurizer if table else None,
            )
        return config.replace(task=self.target.kind) if asks else config

    def _understood(self, data: TrainingData) -> TrainingData:
        """Returns other data with its classes renumbered to match the model's."""
        target, theirs = self.target, data.target
        field = data.archive.fields["y"]
        try:
            values = target.renumbered(theirs, field.values)
        except ConfigError as error:
            raise ModelFolderError(f"{data.name}: {error}") from None
        archive = data.archive.with_field("y", replace(field, values=values))
        return replace(data, archive=archive, target=target)


def _trained_on(path: Path, card: ModelCard) -> DataConfig | None:
    """Returns the data that a model was trained on.

    Prefers the settings of the run, which know where the data is. The card only knows its name.
    """
    path = _first(path)
    if (path / CONFIG).is_file():
        return RunFolder.open(path).read_config().data
    return card.data


def _first(path: Path) -> Path:
    """Returns the folder of the first member of an ensemble, and that of any other model."""
    together = read_ensemble(path)
    return path if together is None else path / together.members[0]
