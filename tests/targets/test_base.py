"""What all kinds of targets have in common."""

from __future__ import annotations

import numpy as np
import pytest

from eigenformer.config import ConfigError
from eigenformer.targets import (
    ClassTarget,
    LabelTarget,
    NumberTarget,
    Target,
    infer_target,
    make_target,
)


def test_metrics_by_task():
    assert NumberTarget().metric == "mae"
    assert ClassTarget(num_outputs=3).metric == "accuracy"
    assert ClassTarget(level="node", num_outputs=3).metric == "weighted_accuracy"
    assert LabelTarget(level="node").metric == "weighted_accuracy"
    assert LabelTarget(num_outputs=3, kind="multilabel").metric == "auroc"
    assert (
        LabelTarget(judged_by="average_precision", kind="multilabel").metric == "average_precision"
    )
    assert "auroc" in ClassTarget(num_outputs=2).metrics
    assert [NumberTarget(judged_by=m).higher_is_better for m in ("mae", "rmse", "r2")] == [0, 0, 1]
    assert NumberTarget(level="node").metric == "mae"


def test_a_metric_that_does_not_suit():
    with pytest.raises(
        ConfigError, match="'auroc' cannot be used for graph regression.*mae, rmse, r2"
    ):
        NumberTarget(judged_by="auroc")


@pytest.mark.parametrize(
    "target",
    [
        NumberTarget(names=("a",), mean=(1.0,), scale=(2.0,)),
        ClassTarget(level="node", num_outputs=3, judged_by="f1"),
        LabelTarget(num_outputs=2, kind="multilabel"),
    ],
)
def test_plain_data_and_back(target):
    assert Target.from_dict(target.to_dict()) == target
    assert target.same_as(target.judged(None))


def test_plain_data_that_is_no_target():
    with pytest.raises(ConfigError, match=r"target.kind: 'regresion'.*'regression'"):
        Target.from_dict({"kind": "regresion"}, "target")
    with pytest.raises(ConfigError, match="expected a target with a 'kind'"):
        Target.from_dict({"level": "node"})
    with pytest.raises(ConfigError, match="num_outputs"):
        NumberTarget(num_outputs=0)
    with pytest.raises(ConfigError, match="task: 'number'"):
        make_target("number")


@pytest.mark.parametrize(
    ("values", "kind", "outputs"),
    [
        (np.array([0.5, 1.0]), "regression", 1),
        (np.array([[0.5, 1.0]]), "regression", 2),
        (np.array([0, 2, 1]), "multiclass", 3),
        (np.array([0, 1, 1]), "binary", 1),
        (np.array([0.0, np.nan, 1.0]), "binary", 1),
        (np.array([[0.0, 1.0]]), "multilabel", 2),
        (np.array([0, -2]), "regression", 1),
    ],
)
def test_the_kind_is_told_by_the_values(values, kind, outputs):
    target = infer_target(values)
    assert (target.kind, target.num_outputs) == (kind, outputs)
    assert infer_target(values, kind=kind, level="node") == infer_target(values, level="node")


def test_values_that_are_not_of_the_kind():
    with pytest.raises(ConfigError, match="not all targets are 0 or 1"):
        infer_target(np.array([0.5]), kind="binary")
    with pytest.raises(ConfigError, match="there are 2 targets"):
        infer_target(np.array([[0, 1]]), kind="binary")
    with pytest.raises(ConfigError, match="one non-negative whole number"):
        infer_target(np.array([0.5]), kind="multiclass")


def test_rows_of_a_batch():
    assert NumberTarget().rows([3, 4]) == [1, 1]
    assert NumberTarget(level="node").rows([3, 4]) == [3, 4]
