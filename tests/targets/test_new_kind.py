"""A new kind of target is one class: it is trained, saved, opened and used for predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from eigenformer.analysis.run_report import report_run
from eigenformer.data import GraphArchive
from eigenformer.model_folder import read_card
from eigenformer.pages import report_page
from eigenformer.pages.predictions import prediction_html
from eigenformer.targets import KINDS, NumberTarget, Target
from eigenformer.targets.base import weigh
from eigenformer.trained_model import TrainedModel
from eigenformer.training import plan, start_run
from eigenformer.training.prediction import predict_file
from tests.training.samples import read_rows


@dataclass(frozen=True)
class MeanVarianceTarget(NumberTarget):
    """Numbers with their uncertainty: a mean, and the logarithm of a variance."""

    kind: Literal["mean_variance"] = "mean_variance"  # type: ignore[assignment]

    @property
    def width(self):
        return 2 * self.num_outputs

    def loss_sums(self, predictions, targets, weights=None):
        targets = self.standardise(targets)
        known = self.known(targets)
        mean, log_variance = predictions.split(self.num_outputs, 1)
        pair, variance = (mean, targets.nan_to_num()), log_variance.exp()
        losses = F.gaussian_nll_loss(*pair, variance, reduction="none")
        return weigh(losses * known, weights).sum().view(1), known.sum().view(1)

    def in_units(self, predictions):
        mean, log_variance = predictions.split(self.num_outputs, 1)
        scale = mean.new_tensor(self.scale or (1.0,) * self.num_outputs)
        return torch.cat([self.restore(mean), (log_variance / 2).exp() * scale], 1)

    def header(self):
        return [*super().header(), *(f"deviation_{name}" for name in self.column_names)]

    def said(self, row):
        mean, deviation = np.split(row, 2)
        return f"{super().said(mean)} ± {super().said(deviation)}"


def _graphs(level: str) -> list[Data]:
    rng = np.random.default_rng(0)
    graphs = []
    for size in rng.integers(3, 8, 30):
        there = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
        x = torch.from_numpy(rng.integers(0, 3, (size, 1)))
        y = x.float() if level == "node" else x.float().sum().view(1, 1)
        graphs.append(Data(x=x, edge_index=torch.cat([there, there.flip(0)], 1), y=y))
    return graphs


@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_mean_with_a_variance(level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "mean_variance", MeanVarianceTarget)
    target = MeanVarianceTarget(level, names=("sum",))
    split = ["train"] * 20 + ["val"] * 5 + ["test"] * 5
    archive = GraphArchive.from_data_list(_graphs(level), split=split, target=target)
    archive.save(tmp_path / "graphs")
    assert GraphArchive.open(tmp_path / "graphs").target == target

    settings = {
        "data": {"dataset": str(tmp_path / "graphs")},
        "model": {"layers": 1, "hidden_dim": 16, "phi_width": 4},
        "training": {"epochs": 2, "batch_size": 8, "initial_bias": "targets"},
    }
    config, data = plan(settings)
    assert config.model.out_channels == 2
    summary = start_run(config, data, tmp_path / "run")
    assert np.isfinite(summary["test"])
    card = read_card(tmp_path / "run")
    assert isinstance(card.target, MeanVarianceTarget)
    assert card.target.scale
    assert Target.from_dict(card.target.to_dict()) == card.target

    opened = TrainedModel.open(tmp_path / "run")
    assert opened.evaluate(opened.graphs())["mae"] == pytest.approx(summary["test"])
    out = tmp_path / "predictions.csv"
    predict_file(opened, tmp_path / "graphs", out)
    rows = read_rows(out)
    assert len(rows) == sum(target.rows(archive.num_nodes.tolist()))
    assert all(float(row["deviation_sum"]) > 0 and row["predicted_sum"] for row in rows)

    report = report_run(tmp_path / "run", examples=2)
    assert report.test is not None
    assert (report.test.pairs is None) == (level == "node")
    shown = report.test.examples[0].prediction
    assert shown.shape[1] == 2
    assert "±" in card.target.said(shown[0])
    assert "sum" in prediction_html(card.target, shown)
    assert "mean absolute error" in report_page(report)
