from __future__ import annotations

import numpy as np
import pytest

from eigenformer.analysis.trust import measure_trust
from eigenformer.targets import Calibration, ClassTarget, LabelTarget, NumberTarget


def test_coverage_of_good_and_of_too_narrow_intervals():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(2, 2000, 1))
    calibration = Calibration.from_scores(np.abs(errors[0]).T)
    zeros = list(np.zeros((2000, 1, 1)))
    good = measure_trust(NumberTarget(), calibration, zeros, list(errors[1][:, None])).coverage
    assert np.abs(good[:, 1] - good[:, 0]).max() < 0.04
    wide = list(3 * errors[1][:, None])
    narrow = measure_trust(NumberTarget(), calibration, zeros, wide).coverage
    assert (narrow[:, 1] < narrow[:, 0]).all()
    few = Calibration.from_scores([np.arange(4.0)])
    found = measure_trust(NumberTarget(), few, zeros, wide).coverage
    assert found[:, 0].max() == pytest.approx(0.8)  # four graphs cannot promise more
    unknown = measure_trust(NumberTarget(), Calibration(), zeros, wide)
    assert (unknown.coverage, unknown.frequencies) == (None, None)


def test_probabilities_that_come_true():
    rng = np.random.default_rng(0)
    shares = rng.random((4000, 1))
    labels = (rng.random((4000, 1)) < shares).astype(float)
    labels[:5] = np.nan
    found = measure_trust(
        LabelTarget(), Calibration(), list(shares[:, None]), list(labels[:, None])
    )
    assert found.frequencies.shape == (10, 2)
    assert np.abs(np.diff(found.frequencies, axis=1)).max() < 0.06
    sure = list(np.round(shares)[:, None])
    bold = measure_trust(LabelTarget(), Calibration(), sure, list(labels[:, None])).frequencies
    assert np.abs(np.diff(bold, axis=1)).max() > 0.2


def test_classes_one_by_one():
    shares = np.tile([[0.7, 0.2, 0.1]], (30, 1))
    classes = np.array([0] * 21 + [1] * 6 + [2] * 3)
    found = measure_trust(
        ClassTarget(num_outputs=3), Calibration(), list(shares[:, None]), list(classes[:, None])
    ).frequencies
    by_class = found.reshape(3, 3, 2).mean(1)  # nine bins, three of each probability
    np.testing.assert_allclose(by_class, [[0.1, 0.1], [0.2, 0.2], [0.7, 0.7]])


def test_nodes_and_too_few_graphs():
    one = [np.zeros((1, 1))]
    assert measure_trust(NumberTarget(level="node"), Calibration(), one, one).coverage is None
    assert measure_trust(LabelTarget(), Calibration(), one, one).frequencies is None
