"""Conformal intervals: they contain the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from eigenformer.config import ConfigError
from eigenformer.targets import Calibration, ClassTarget, LabelTarget, NumberTarget


def test_the_bound_is_the_right_score() -> None:
    calibration = Calibration.from_scores([np.array([3.0, np.nan, 1.0, 2.0, 4.0])])
    assert calibration.scores == ((1.0, 2.0, 3.0, 4.0),)
    assert calibration.bounds(0.8).tolist() == [4.0]  # ⌈5 · 0.8⌉ = 4
    assert calibration.bounds(0.6).tolist() == [3.0]
    with pytest.raises(ConfigError, match="interval: 0.9 needs 9 graphs .* but the val.* has 4"):
        calibration.bounds(0.9)
    with pytest.raises(ConfigError, match="between 0 and 1, such as 0.9, got 90"):
        calibration.bounds(90)


@pytest.mark.parametrize("count", [150, 3000])
def test_intervals_contain_the_truth_as_often_as_they_say(count: int) -> None:
    """Also if there are so many scores that some are left out."""
    random, covered = np.random.default_rng(0), []
    target = NumberTarget()
    for _ in range(60):
        errors = random.standard_cauchy((count + 1000, 1))
        zeros = np.zeros((count + 1000, 1))
        scores = target.scores(zeros[:count], errors[:count])
        bounds = Calibration.from_scores(scores.T).bounds(0.9)
        covered.append(target.covered(zeros[count:], errors[count:], bounds)[0])
    assert 0.89 < np.mean(covered) < 0.915


def test_damaged_scores_are_refused() -> None:
    for scores in (((2.0, 1.0),), ((float("nan"),),)):
        with pytest.raises(ConfigError, match="in ascending order"):
            Calibration(scores)


def test_intervals_of_numbers() -> None:
    target = NumberTarget(num_outputs=2, names=("a", "b"))
    assert target.interval_header() == ["low_a", "high_a", "low_b", "high_b"]
    cells = target.interval_cells(np.array([1.0, 5.0]), np.array([0.5, 2.0]))
    assert cells == ["0.5", "1.5", "3.0", "7.0"]
    truth = np.array([[1.25, np.nan]])
    assert target.scores(np.array([[1.0, 5.0]]), truth)[0, 0] == 0.25
    assert target.truth_cells(truth[0]) == ["1.25", ""]


def test_answers_of_labels() -> None:
    target = LabelTarget(names=("toxic",))
    assert target.interval_header() == ["answers_toxic"]
    for share, bound, answer in ((0.9, 0.5, "yes"), (0.1, 0.5, "no"), (0.5, 0.7, "no or yes")):
        assert target.interval_cells(np.array([share]), np.array([bound])) == [answer]
    assert target.interval_cells(np.array([0.5]), np.array([0.2])) == [""]
    scores = target.scores(np.array([[0.9], [0.9], [0.9]]), np.array([[1.0], [0.0], [np.nan]]))
    assert scores[:, 0].tolist() == pytest.approx([0.1, 0.9, np.nan], nan_ok=True)


def test_sets_of_classes() -> None:
    target = ClassTarget(num_outputs=3, names=("a", "b", "c"))
    shares = np.array([[0.6, 0.3, 0.1]])
    assert target.interval_cells(shares[0], np.array([0.75])) == ["a or b"]
    assert target.scores(shares, np.array([1]))[0, 0] == pytest.approx(0.7)
    assert np.isnan(target.scores(shares, np.array([-1]))[0, 0])
    assert target.truth_names == ["class"]
    assert target.truth_cells(np.array([2])) == ["c"]
    assert target.truth_cells(np.array([-1])) == [""]
