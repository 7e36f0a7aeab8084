from __future__ import annotations

import pytest

from eigenformer.config import ConfigError
from eigenformer.outputs import Outputs


def test_metrics_by_task():
    assert Outputs().metric == "mae"
    assert Outputs(kind="multiclass", num_outputs=3).metric == "accuracy"
    assert Outputs("node", "multiclass", 3).metric == "weighted_accuracy"
    assert Outputs("node", "binary").metric == "weighted_accuracy"
    assert Outputs(kind="multilabel", num_outputs=3).metric == "auroc"
    assert Outputs(kind="multilabel", judged_by="average_precision").metric == "average_precision"
    assert "auroc" in Outputs(kind="multiclass", num_outputs=2).metrics
    assert [Outputs(judged_by=m).higher_is_better for m in ("mae", "rmse", "r2")] == [0, 0, 1]
    assert Outputs("node", "regression").metric == "mae"


def test_a_metric_that_does_not_suit():
    with pytest.raises(ConfigError, match="'auroc' does not suit graph regression.*mae, rmse, r2"):
        Outputs(judged_by="auroc")
