"""Estimators with scikit-learn's interface: ``fit``, ``predict``, ``score`` (extra ``sklearn``)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch_geometric.data import Data

from eigenformer.config import InputFormat, OwnData, RunConfig, load_preset
from eigenformer.data.archive import GraphArchive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.checks import BEYOND_SINGLE
from eigenformer.data.descriptors import SETS, columns
from eigenformer.data.errors import DataError
from eigenformer.data.fields import ROW_WEIGHT, Field
from eigenformer.data.molecules import featurizer, molecule_archive
from eigenformer.data.spectra import memory_spectra
from eigenformer.data.splits import random_split
from eigenformer.data.target_columns import in_single_precision
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.models import model_shapes
from eigenformer.nearest import unknown
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget, Target
from eigenformer.trained_model import TrainedModel
from eigenformer.training.in_memory import fit_in_memory
from eigenformer.training.loading import has_weight, weighted
from eigenformer.training.planning import (
    DEFAULT_PRESET,
    default_start,
    fit_training,
    fit_trunk,
    of_kind,
)
from eigenformer.training.starting import new_model
from eigenformer.training.trainer import limited_threads

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise ImportError(
        "the estimators need scikit-learn: install it with  pip install 'eigenformer[sklearn]'"
    ) from None

Graphs = Sequence[str] | Sequence[Data] | np.ndarray
"""SMILES or PyG graphs, as a list, an array, or a pandas column."""


# What a graph may have without being told that it is not used.
_KNOWN = {
    *("x", "edge_index", "edge_attr", "y", "num_nodes"),
    *("eigenvalues", "eigenvectors", "num_frequencies"),
}


class _Estimator(BaseEstimator):
    def __init__(
        self,
        preset: str = DEFAULT_PRESET,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.1,
        settings: dict[str, Any] | None = None,
        featurizer: str = "molecule",
        descriptors: Sequence[str] = (),
        pretrained: bool = True,
        threads: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        limits: Limits | None = None,
    ) -> None:
        self.preset = preset
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.featurizer = featurizer
        self.descriptors = descriptors
        self.pretrained = pretrained
        self.threads = threads
        self.random_state = random_state
        self.limits = limits

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.one_d_array = False, True
        tags.input_tags.string = True
        return tags

    def _fit(self, X: Graphs, targets: np.ndarray, target: Target, weights: Any = None) -> None:
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction: must be in [0, 1), got {self.validation_fraction}"
            )
        archive = self._archive(X)
        if len(archive) != len(targets):
            raise ValueError(f"{len(archive)} graphs, but {len(targets)} targets")
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        archive = archive.with_field("y", Field("graph", targets, targets.dtype))
        parts = self._parts(targets, int(seed))
        if weights is not None:
            values = np.asarray(weights, dtype=np.float32)
            if values.shape != (len(archive),):
                raise ValueError(f"sample_weight: expected {len(archive)} numbers")
            archive = archive.with_field(ROW_WEIGHT, Field("graph", values, values.dtype))
            archive = weighted(archive, parts[0])
            there = has_weight(archive)
            parts, target = (parts[0][there[parts[0]]], parts[1]), target.fitted(targets[there])
        config = self._config(archive, target, len(parts[0]), int(seed))
        spectra = memory_spectra(archive) if config.model.needs.spectrum else None
        train, val = (GraphDataset(archive, spectra, indices=part) for part in parts)
        own = archive.fields.get("descriptors")
        descriptors = None if own is None else own.values[parts[0]]
        # Leave the caller's random state unchanged.
        with torch.random.fork_rng(devices=[]), limited_threads(self.threads):
            model, target, _ = new_model(config, target, targets[parts[0]], descriptors)
            self.history_ = fit_in_memory(model, target, config, train, val)
        self.trained_ = TrainedModel(
            name=type(self).__name__,
            model=model.eval(),
            target=target,
            input_format=InputFormat(
                featurizer=self.featurizer, descriptors=tuple(self.descriptors)
            ),
            data=config.data,
            batch_size=config.training.batch_size,
            limits=self._limits,
        )

    @property
    def _limits(self) -> Limits:
        return DEFAULT_LIMITS if self.limits is None else self.limits

    def transform(self, X: Graphs) -> np.ndarray:
        """Returns what the head sees of graphs, ``[n, d]``, without their descriptors."""
        check_is_fitted(self, "trained_")
        return self.trained_.embed(self._archive(X)).double().numpy()

    def _predict(self, X: Graphs) -> np.ndarray:
        check_is_fitted(self, "trained_")
        return self.trained_.predict(self._archive(X)).double().numpy()

    def _archive(self, X: Graphs) -> GraphArchive:
        items = _listed(X)
        if not items:
            raise ValueError("expected at least one graph")
        if isinstance(items[0], Data):
            if unused := sorted(set(items[0].keys()) - _KNOWN):
                warnings.warn(
                    f"graphs are described by x and edge_attr only, not by {', '.join(unused)}; "
                    f"concatenate them to use them",
                    stacklevel=4,
                )
            return GraphArchive.from_data_list(
                [_features(graph) for graph in items], limits=self._limits
            )
        if unknown_names := columns(self.descriptors):
            raise ValueError(unknown(f"descriptors: '{unknown_names[0]}'", unknown_names[0], SETS))
        make, graphs = featurizer(self.featurizer, self._limits, self.descriptors), []
        for place, smiles in enumerate(items):
            try:
                if not isinstance(smiles, str):
                    raise DataError(f"{smiles!r} is neither a SMILES string nor a PyG graph")
                graphs.append(make(smiles))
            except DataError as error:
                raise DataError(f"molecule {place}: {error}") from None
        return molecule_archive(graphs, self.featurizer)

    def _parts(self, targets: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Splits the graphs into training and validation; skips graphs without any target."""
        rows = targets.reshape(len(targets), -1)
        usable = np.flatnonzero(~np.isnan(rows).all(1))
        share = self.validation_fraction
        split = random_split(len(usable), (1 - share, share, 0.0), seed)
        train, val = usable[split == 0], usable[split == 1]
        # With too few graphs to hold any out, the best epoch is chosen on the training graphs.
        return (train, val) if len(val) else (usable, usable)

    def _config(self, archive: GraphArchive, target: Target, graphs: int, seed: int) -> RunConfig:
        preset = load_preset(self.preset)
        settings = self.settings or {}
        trunk = of_kind(preset.model, settings.get("kind", preset.model.kind))
        model = fit_trunk(trunk, archive, target)
        given = {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        config = RunConfig.from_dict(
            {
                "data": OwnData(dataset="in memory"),
                "preset": self.preset,
                "model": {**model.to_dict(), **settings},
                "training": fit_training(preset, changes, graphs, target),
                "seed": seed,
                "patience": preset.patience,
            }
        )
        model_shapes(config.model, self._limits)  # not too large to build
        start = default_start(preset, config.model)[0] if self.pretrained else None
        training = fit_training(preset, changes, graphs, target, start)
        return config.replace(start=start, training=training)


class EigenformerRegressor(RegressorMixin, _Estimator):
    """Predicts numbers for graphs or molecules, with the interface of scikit-learn's regressors.

    Args:
        preset: The settings of the model and its training: a preset.
        epochs: Number of training epochs (default: the preset's, by the number of graphs).
        batch_size: Graphs per training step (default: the preset's).
        learning_rate: The peak learning rate (default: the preset's).
        validation_fraction: The fraction of the graphs that is held out to choose the best epoch.
        settings: Model settings that override the preset, for example ``{"layers": 4}``, or
            ``{"kind": "gine"}`` for another network of the same size.
        featurizer: How SMILES become graphs: ``molecule``, ``ogb`` or ``zinc``.
        descriptors: Numbers beside the graphs of SMILES: ``rdkit2d``, ``morgan``.
        pretrained: Whether to start from the preset's pretrained weights, if they fit the model.
        threads: Number of PyTorch threads (default: PyTorch's own choice).
        random_state: The seed of everything random, or a generator to draw it from.
        limits: How large molecules, graphs and the model may be (default: the usual limits).
    """

    def fit(self, X: Graphs, y: Any, sample_weight: Any = None) -> EigenformerRegressor:
        """Trains on SMILES or PyG graphs.

        Args:
            X: SMILES or PyG graphs.
            y: Numbers, of shape ``[n]`` or ``[n, targets]``. Missing values are NaN.
            sample_weight: The weight of each graph in the training loss, of shape ``[n]``.
        """
        given = np.asarray(_some(y), dtype=np.float64)
        if given.ndim not in (1, 2):
            raise ValueError(
                f"y: expected one number per graph, or a row of numbers, got shape {given.shape}"
            )
        if np.isinf(given).any():
            raise ValueError("y contains an infinite value")
        largest = float(np.nanmax(np.abs(given), initial=0))
        if largest > float(np.finfo(np.float32).max):
            raise ValueError(f"y contains {largest:g}, {BEYOND_SINGLE}")
        values = in_single_precision(given)
        self._flat = values.ndim == 1
        values = values.reshape(len(values), -1)
        if np.isnan(values).all(0).any():
            raise ValueError("y: a target has no known value")
        target = NumberTarget(num_outputs=values.shape[1]).fitted(values)
        self._fit(X, values, target, sample_weight)
        return self

    def predict(self, X: Graphs) -> np.ndarray:
        """Returns predictions with the units and number of dimensions of ``y``."""
        values = self._predict(X)
        return values[:, 0] if self._flat else values


class EigenformerClassifier(ClassifierMixin, _Estimator):
    """Predicts one of several classes, or several labels, as scikit-learn's classifiers do.

    Takes the same arguments as :class:`EigenformerRegressor`. Classes may be any sortable values;
    labels are 0 or 1, NaN if missing.
    """

    def fit(self, X: Graphs, y: Any, sample_weight: Any = None) -> EigenformerClassifier:
        """Trains on SMILES or PyG graphs.

        Args:
            X: SMILES or PyG graphs.
            y: Classes ``[n]``, or labels ``[n, labels]``.
            sample_weight: The weight of each graph in the training loss, of shape ``[n]``.
        """
        classes = np.asarray(_some(y))
        self._labels = classes.ndim == 2
        if self._labels:
            return self._fit_labels(X, classes, sample_weight)
        if classes.ndim != 1:
            raise ValueError(
                f"y: expected one class per graph, or a row of labels, got shape {classes.shape}"
            )
        if any(value is None or value != value for value in classes.tolist()):
            raise ValueError("y contains a missing class")
        self.classes_, numbers = np.unique(classes, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y contains only one class")
        target = ClassTarget(num_outputs=len(self.classes_))
        self._fit(X, numbers.reshape(-1).astype(np.int64), target, sample_weight)
        return self

    def _fit_labels(self, X: Graphs, labels: np.ndarray, weights: Any) -> EigenformerClassifier:
        values = labels.astype(np.float32)
        if not np.isin(values[~np.isnan(values)], (0, 1)).all():
            raise ValueError("y: several labels per graph must be 0, 1 or NaN")
        if np.isnan(values).all(0).any():
            raise ValueError("y: a label has no known value")
        self.classes_ = np.arange(values.shape[1])
        kind: Literal["binary", "multilabel"] = "multilabel" if values.shape[1] > 1 else "binary"
        self._fit(X, values, LabelTarget(num_outputs=values.shape[1], kind=kind), weights)
        return self

    def predict(self, X: Graphs) -> np.ndarray:
        """Returns the most probable class of each graph, or its labels ``[n, labels]``."""
        probabilities = self.predict_proba(X)
        if self._labels:
            return (probabilities > 0.5).astype(np.int64)
        return self.classes_[probabilities.argmax(1)]

    def predict_proba(self, X: Graphs) -> np.ndarray:
        """Returns the probability of each class, in the order of ``classes_``, or of each label."""
        return self._predict(X)


def _some(y: Any) -> Any:
    """Returns the targets. Raises an error if there are none."""
    if y is None:
        raise ValueError("y: is None; give one target per graph")
    if not np.size(y):
        raise ValueError("y: no targets; expected at least one graph and its target")
    return y


def _listed(X: Graphs) -> list[Any]:
    """Returns a list with one entry per graph.

    Lists are not converted to arrays, because NumPy treats a PyG graph as a sequence.
    """
    if isinstance(X, list | tuple):
        return list(X)
    array = np.asarray(X, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:  # one column of a table
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"expected a list of SMILES or of PyG graphs, got shape {array.shape}")
    return list(array)


def _features(graph: Data) -> Data:
    """Returns a new graph with the features and edges only. Targets are passed separately."""
    kept = {k: v for k, v in graph.to_dict().items() if k in ("x", "edge_index", "edge_attr")}
    data = Data(**kept)
    data.num_nodes = graph.num_nodes
    return data
