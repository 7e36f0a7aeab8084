"""The model with scikit-learn's habits: ``fit``, ``predict``, ``score`` (extra ``sklearn``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from eigenformer.config import (
    DataConfig,
    EigenformerConfig,
    RunConfig,
    load_preset,
)
from eigenformer.data.archive import GraphArchive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.errors import DataError
from eigenformer.data.molecules import featurizer
from eigenformer.data.splits import random_split
from eigenformer.model_folder import Outputs
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.inputs import encoders
from eigenformer.training.loop import new_model
from eigenformer.training.prediction import memory_spectra, molecules_archive, predict_graphs
from eigenformer.training.recorder import Recorder
from eigenformer.training.task import EigenformerTask
from eigenformer.training.trainer import limited_threads, make_trainer, quiet

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise ImportError(
        "the estimators need scikit-learn: install it with  pip install 'eigenformer[sklearn]'"
    ) from None

Graphs = Sequence[str] | Sequence[Data] | np.ndarray
"""SMILES, or PyG graphs."""


class _Estimator(BaseEstimator):
    def __init__(
        self,
        preset: str = "zinc",
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        validation_fraction: float = 0.1,
        settings: dict[str, Any] | None = None,
        featurizer: str = "ogb",
        threads: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.preset = preset
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.featurizer = featurizer
        self.threads = threads
        self.random_state = random_state

    def _fit(self, X: Graphs, targets: np.ndarray, outputs: Outputs) -> None:
        archive = self._archive(X)
        if len(archive) != len(targets):
            raise ValueError(f"{len(archive)} graphs, but {len(targets)} targets")
        graphs = archive.to_data_list()
        for graph, target in zip(graphs, targets, strict=True):
            graph.y = torch.as_tensor(target)[None]
        levels = {"y": "graph"}
        labelled = GraphArchive.from_data_list(graphs, levels=levels, meta=archive.meta)  # type: ignore[arg-type]
        config = self._config(labelled, outputs)
        dataset = GraphDataset(labelled, memory_spectra(labelled))
        train, val = self._parts(len(labelled))
        module = GraphDataModule(
            GraphDataset(labelled, dataset.spectra, indices=train),
            GraphDataset(labelled, dataset.spectra, indices=val),
            batch_size=self.batch_size,
            seed=self.random_state,
        )
        # The caller's random numbers are none of our business.
        with torch.random.fork_rng(devices=[]), quiet(), limited_threads(self.threads):
            model, outputs, _ = new_model(config, outputs)
            task = EigenformerTask(model, outputs, config.training, config.seed)
            recorder = Recorder()
            make_trainer(config, [recorder], enable_checkpointing=True).fit(task, datamodule=module)
        model.load_state_dict(recorder.best_state)
        self.model_, self.outputs_ = model.eval(), outputs
        self.history_ = recorder.rows

    def _predict(self, X: Graphs) -> np.ndarray:
        check_is_fitted(self, "model_")
        return predict_graphs(self.model_, self._archive(X), self.outputs_).double().numpy()

    def _archive(self, X: Graphs) -> GraphArchive:
        if not len(X):
            raise ValueError("no graphs")
        if isinstance(X[0], Data):
            return GraphArchive.from_data_list([_features(graph) for graph in X])
        make, graphs = featurizer(self.featurizer), []
        for place, smiles in enumerate(np.asarray(X, dtype=object).ravel()):
            try:
                graphs.append(make(str(smiles)))
            except DataError as error:
                raise DataError(f"molecule {place}: {error}") from None
        return molecules_archive(graphs, self.featurizer)

    def _parts(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        share = self.validation_fraction
        split = random_split(count, (1 - share, share, 0.0), self.random_state)
        train, val = np.flatnonzero(split == 0), np.flatnonzero(split == 1)
        # Too few to spare some: the best epoch is then that of the best training loss.
        return (train, val) if len(val) else (np.arange(count), np.arange(count))

    def _config(self, archive: GraphArchive, outputs: Outputs) -> RunConfig:
        preset = load_preset(self.preset)
        nodes, edges = encoders(archive)
        pooling = "mean" if preset.model.pooling == "none" else preset.model.pooling
        model: EigenformerConfig = preset.model.replace(
            node_encoder=nodes,
            edge_encoder=edges,
            out_channels=outputs.num_outputs,
            pooling=pooling,
            **(self.settings or {}),
        )
        training = preset.training.with_epochs(self.epochs).replace(
            batch_size=self.batch_size, learning_rate=float(self.learning_rate)
        )
        return RunConfig(
            DataConfig("in memory"), self.preset, model, training, seed=self.random_state
        )


class EigenformerRegressor(RegressorMixin, _Estimator):
    """Predicts numbers for graphs or molecules, as scikit-learn's regressors do.

    Args:
        preset: The trunk: one of the paper's models.
        epochs: Length of training.
        batch_size: Graphs per step.
        learning_rate: Its peak.
        validation_fraction: The share of the graphs that the best epoch is chosen by.
        settings: Other settings of the model, for example ``{"layers": 4}``.
        featurizer: How SMILES become graphs: ``ogb`` or ``zinc``.
        threads: Of PyTorch (default: its own choice).
        random_state: Of everything random.
    """

    def fit(self, X: Graphs, y: Any) -> EigenformerRegressor:
        """Trains on SMILES or PyG graphs; ``y`` is ``[n]`` or ``[n, targets]``, NaN if missing."""
        values = np.asarray(y, dtype=np.float32)
        self._flat = values.ndim == 1
        values = values.reshape(len(values), -1)
        if np.isinf(values).any():
            raise ValueError("y holds an infinite value")
        scale = np.nanstd(values, 0, dtype=np.float64)
        outputs = Outputs(
            num_outputs=values.shape[1],
            mean=tuple(np.atleast_1d(np.nanmean(values, 0, dtype=np.float64)).tolist()),
            scale=tuple(np.where(scale > 0, scale, 1.0).tolist()),
        )
        self._fit(X, values, outputs)
        return self

    def predict(self, X: Graphs) -> np.ndarray:
        """Numbers, in the units of ``y`` and in its shape."""
        values = self._predict(X)
        return values[:, 0] if self._flat else values


class EigenformerClassifier(ClassifierMixin, _Estimator):
    """Predicts one of several classes, as scikit-learn's classifiers do.

    Takes what :class:`EigenformerRegressor` takes; classes may be anything that sorts.
    """

    def fit(self, X: Graphs, y: Any) -> EigenformerClassifier:
        """Trains on SMILES or PyG graphs and their classes ``[n]``."""
        self.classes_, numbers = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y holds one class only")
        outputs = Outputs(kind="multiclass", num_outputs=len(self.classes_))
        self._fit(X, numbers.reshape(-1).astype(np.int64), outputs)
        return self

    def predict(self, X: Graphs) -> np.ndarray:
        """The most probable class of each."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: Graphs) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""
        return self._predict(X)


def _features(graph: Data) -> Data:
    """The graph without its target: what is asked for is given apart, and it is left as it is."""
    kept = {k: v for k, v in graph.to_dict().items() if k in ("x", "edge_index", "edge_attr")}
    data = Data(**kept)
    data.num_nodes = graph.num_nodes
    return data
