from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
pytest.importorskip("rdkit")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from eigenformer import EigenformerClassifier, EigenformerRegressor
from eigenformer.limits import Limits
from tests.training.samples import molecules

_SMILES = [smiles for smiles, _ in molecules()]
_VALUES = np.array([value for _, value in molecules()])
_SMALL = {"layers": 1, "hidden_dim": 16, "phi_width": 4, "attention_dropout": 0.0}


def _small(cls, **changes):
    options = {"epochs": 30, "batch_size": 8, "learning_rate": 0.01, "settings": _SMALL}
    return cls(**{**options, "threads": 1, **changes})


def test_regressor_learns_and_scores():
    model = _small(EigenformerRegressor).fit(_SMILES, _VALUES)
    assert model.predict(_SMILES[:3]).shape == (3,)
    assert model.score(_SMILES, _VALUES) > 0.8
    again = clone(model).fit(_SMILES, _VALUES)
    assert np.array_equal(again.predict(_SMILES), model.predict(_SMILES))


def test_several_targets_with_missing_ones():
    targets = np.stack([_VALUES, -_VALUES], 1)
    targets[::3, 1] = np.nan
    model = _small(EigenformerRegressor, epochs=2).fit(_SMILES, targets)
    assert model.predict(_SMILES[:4]).shape == (4, 2)


def test_classifier_knows_its_classes():
    classes = ["acid" if s.endswith("O)O") else "other" for s in _SMILES]
    model = _small(EigenformerClassifier, epochs=15).fit(_SMILES, classes)
    assert list(model.classes_) == ["acid", "other"]
    probabilities = model.predict_proba(_SMILES)
    assert probabilities.sum(1) == pytest.approx(1)
    assert model.score(_SMILES, classes) > 0.9


def test_takes_graphs_and_leaves_them_alone():
    from tests.graphs import random_graph

    graphs = [random_graph(6 + i % 3) for i in range(12)]
    before = [list(graph.keys()) for graph in graphs]
    model = _small(EigenformerRegressor, epochs=1).fit(graphs, np.arange(12.0))
    assert model.predict(graphs).shape == (12,)
    assert [list(graph.keys()) for graph in graphs] == before


def test_pipelines_and_cross_validation():
    strip = FunctionTransformer(lambda texts: [text.strip() for text in texts])
    model = make_pipeline(strip, _small(EigenformerRegressor, epochs=1))
    model.set_params(eigenformerregressor__epochs=2)
    assert model.get_params()["eigenformerregressor__epochs"] == 2
    assert len(cross_val_score(model, _SMILES, _VALUES, cv=2)) == 2


def test_grid_search_over_its_own_settings():
    search = GridSearchCV(
        _small(EigenformerClassifier, epochs=1),
        {"learning_rate": [0.01, 0.001]},
        cv=2,
        scoring="roc_auc",
    )
    classes = np.array(["acid" if s.endswith("O)O") else "other" for s in _SMILES])
    search.fit(_SMILES, classes)
    assert search.best_params_["learning_rate"] in (0.01, 0.001)
    assert set(search.predict(_SMILES)) <= {"acid", "other"}


class _Column:
    """What matters of a pandas column after a split: an array whose first entry is not at 0."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, label):
        return self.values[label - 100] if label >= 100 else {}[label]

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


def test_lists_arrays_and_columns_are_the_same():
    model = _small(EigenformerRegressor, epochs=1)
    expected = model.fit(_SMILES, _VALUES).predict(_SMILES)
    table = np.array(_SMILES, dtype=object)[:, None]
    for form in (tuple(_SMILES), np.array(_SMILES), table, _Column(_SMILES), _Column(table)):
        again = clone(model).fit(form, _Column(_VALUES))
        assert np.array_equal(again.predict(form), expected)


def test_it_is_stored_and_loaded(tmp_path):
    joblib = pytest.importorskip("joblib")
    model = _small(EigenformerRegressor, epochs=1).fit(_SMILES, _VALUES)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    assert np.array_equal(again.predict(_SMILES), model.predict(_SMILES))


def test_fitting_again_forgets_the_first_time():
    model = _small(EigenformerRegressor, epochs=2).fit(_SMILES, _VALUES)
    first = model.predict(_SMILES)
    model.fit(_SMILES, -_VALUES)
    assert not np.allclose(model.predict(_SMILES), first)
    assert np.array_equal(model.fit(_SMILES, _VALUES).predict(_SMILES), first)


def test_graphs_without_a_target_take_no_part():
    targets = _VALUES.copy()
    targets[::4] = np.nan
    known = ~np.isnan(targets)
    model = _small(EigenformerRegressor, epochs=2).fit(_SMILES, targets)
    alone = clone(model).fit([s for s, k in zip(_SMILES, known, strict=True) if k], targets[known])
    assert np.array_equal(model.predict(_SMILES), alone.predict(_SMILES))


def test_any_random_state_of_scikit_learn():
    for state in (None, np.int64(3), np.random.RandomState(0)):
        _small(EigenformerRegressor, epochs=1, random_state=state).fit(_SMILES[:10], _VALUES[:10])


def test_random_numbers_of_the_caller_are_left_alone():
    state = torch.get_rng_state()
    _small(EigenformerRegressor, epochs=1).fit(_SMILES[:10], _VALUES[:10])
    assert torch.equal(torch.get_rng_state(), state)


def test_a_graph_without_weight_is_not_learned():
    """Every molecule is there twice, with two targets, of which one has no weight."""
    smiles, targets = [*_SMILES, *_SMILES], np.repeat([1.0, 3.0], len(_SMILES))
    model = _small(EigenformerRegressor, epochs=15, validation_fraction=0.0)
    plain = model.fit(smiles, targets).predict(_SMILES).mean()
    first = model.fit(smiles, targets, targets == 1.0).predict(_SMILES).mean()
    second = model.fit(smiles, targets, 7 * (targets == 3.0)).predict(_SMILES).mean()
    assert first < 1.5 < plain < 2.5 < second
    with pytest.raises(ValueError, match="sample_weight: expected 2 numbers"):
        model.fit(["CC", "CO"], [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="a weight is negative, infinite or not a number"):
        model.fit(["CC", "CO"], [1.0, 2.0], [1.0, np.nan])


def test_several_labels():
    labels = np.array([["N" in text, "O" in text] for text in _SMILES], dtype=float)
    labels[0, 1] = np.nan
    model = _small(EigenformerClassifier, epochs=1).fit(_SMILES, labels)
    assert model.predict_proba(_SMILES).shape == labels.shape
    assert set(np.unique(model.predict(_SMILES))) <= {0, 1}
    known = np.nan_to_num(labels)
    assert model.score(_SMILES, known) == (model.predict(_SMILES) == known).all(1).mean()


def test_errors():
    with pytest.raises(NotFittedError):
        EigenformerRegressor().predict(["CC"])
    with pytest.raises(ValueError, match="molecule 1"):
        EigenformerRegressor().fit(["CC", "C1CC"], [0.0, 1.0])
    with pytest.raises(ValueError, match="only one class"):
        EigenformerClassifier().fit(["CC", "CO"], [1, 1])
    with pytest.raises(ValueError, match="a missing class"):
        EigenformerClassifier().fit(["CC", "CO", "C"], np.array(["a", None, "b"], dtype=object))
    with pytest.raises(ValueError, match="one class per graph"):
        EigenformerClassifier().fit(["CC", "CO"], [[[0]], [[1]]])
    with pytest.raises(ValueError, match="must be 0, 1 or NaN"):
        EigenformerClassifier().fit(["CC", "CO"], [[0, 1], [2, 0]])
    with pytest.raises(ValueError, match="a label has no known value"):
        EigenformerClassifier().fit(["CC", "CO"], [[0, np.nan], [1, np.nan]])
    with pytest.raises(ValueError, match="a target has no known value"):
        EigenformerRegressor().fit(["CC", "CO"], [np.nan, np.nan])
    with pytest.raises(ValueError, match="validation_fraction"):
        EigenformerRegressor(validation_fraction=1.0).fit(["CC", "CO"], [1.0, 2.0])
    with pytest.raises(ValueError, match="molecule 0: 3.5 is neither"):
        EigenformerRegressor().fit([3.5, 2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"got shape \(2, 3\)"):
        EigenformerRegressor().fit(np.ones((2, 3)), [1.0, 2.0])
    with pytest.raises(ValueError, match="2 graphs, but 1 targets"):
        EigenformerRegressor().fit(["CC", "CO"], [1.0])


def test_any_network_of_the_package(monkeypatch):
    monkeypatch.setattr("eigenformer.estimators.memory_spectra", None)  # no spectrum is computed
    settings = {"kind": "gin", "layers": 2, "hidden_dim": 16}
    model = _small(EigenformerRegressor, settings=settings).fit(_SMILES, _VALUES)
    assert model.trained_.model.config.title == "gin"
    assert model.score(_SMILES, _VALUES) > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "ginn"}, "model.kind: 'ginn': unknown; the nearest is "),
        (
            {"typical_degree": 3},
            "model.typical_degree: a setting of kind gcn or gin or gine",
        ),
        ({"layer": 2}, "model.layer: unknown; the nearest is 'layers'"),
    ],
)
def test_wrong_model_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        _small(EigenformerRegressor, settings=settings).fit(_SMILES, _VALUES)


@pytest.mark.parametrize(
    ("X", "y", "reason"),
    [
        ([], [], "y: no targets; expected at least one graph"),
        (["C", "CC"], None, "y: is None; give one target per graph"),
        (["C", "CC"], np.zeros((2, 2, 2)), r"y: expected one .* got shape \(2, 2, 2\)"),
    ],
)
@pytest.mark.parametrize("kind", [EigenformerRegressor, EigenformerClassifier])
def test_targets_that_are_none(kind, X, y, reason):
    with pytest.raises(ValueError, match=reason):
        kind(epochs=1).fit(X, y)


def test_targets_beyond_single_precision():
    with pytest.raises(ValueError, match=r"y contains 1e\+300, which exceeds single precision"):
        EigenformerRegressor(epochs=1).fit(["C", "CC"], [1.0, -1e300])


def test_limits_can_be_given():
    pytest.importorskip("rdkit")
    smiles = ["C" * n for n in range(1, 9)]
    small = EigenformerRegressor(epochs=1, limits=Limits(atoms=5))
    with pytest.raises(ValueError, match=r"molecule 5: .*6 exceeds the limit of 5"):
        small.fit(smiles, range(8))
    with pytest.raises(ValueError, match="layers: 4 exceeds the limit of 3"):
        EigenformerRegressor(epochs=1, settings={"layers": 4}, limits=Limits(layers=3)).fit(
            smiles, range(8)
        )


def test_embeddings_are_features_for_other_estimators():
    model = _small(EigenformerRegressor, epochs=1).fit(_SMILES, _VALUES)
    embeddings = model.transform(_SMILES)
    assert embeddings.shape == (len(_SMILES), model.trained_.model.config.hidden_dim)
    head, target = model.trained_.model.head, model.trained_.target
    with torch.no_grad():  # a linear map of them is the prediction
        probed = target.in_units(head(torch.from_numpy(embeddings).float()))
    assert np.allclose(probed[:, 0].numpy(), model.predict(_SMILES), atol=1e-4)
    pipeline = make_pipeline(_small(EigenformerRegressor, epochs=1), LinearRegression())
    assert pipeline.fit(_SMILES, _VALUES).predict(_SMILES[:3]).shape == (3,)
    with pytest.raises(NotFittedError):
        _small(EigenformerRegressor).transform(_SMILES)
