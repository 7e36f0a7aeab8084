"""The figures of a run, of ``evaluate`` and of ``predict`` are the same, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from eigenformer.cli import main
from eigenformer.model_folder import load_model
from eigenformer.trained_model import TrainedModel
from eigenformer.training.loading import load_data
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, molecule_rows, read_rows, write_table

_CASES = {
    "numbers": ["TABLE", "--target", "weight"],
    "numbers, some missing": ["TABLE", "--target", "weight", "second"],
    "yes or no": ["TABLE", "--target", "long"],
    "labels, some missing": ["TABLE", "--target", "long", "oxygen"],
    "classes": ["TABLE", "--target", "kind"],
    "classes of nodes": ["cluster", "--data.size", "40"],
    "labels of nodes": ["pattern", "--data.size", "40"],
    "float64": ["TABLE", "--target", "weight", "--precision", "64"],
    "bfloat16": ["TABLE", "--target", "weight", "--precision", "bf16"],
}


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    rows = molecule_rows()
    for number, row in enumerate(rows):
        row["second"] = "" if number % 3 == 0 else 100 * number
        row["oxygen"] = "" if number % 4 == 0 else int("O" in str(row["smiles"]))
    pytest.importorskip("rdkit")
    return write_table(tmp_path_factory.mktemp("gaps") / "gaps.csv", rows)


@pytest.mark.parametrize("case", _CASES)
def test_evaluate_repeats_every_figure_of_the_run(case, gaps, tmp_path):
    out = tmp_path / "run"
    arguments = [str(gaps) if word == "TABLE" else word for word in _CASES[case]]
    assert main(["train", *arguments, "--out", str(out), *SMALL]) == 0
    summary = RunFolder(out).read_summary()
    trained = TrainedModel.open(out)
    test, val = (trained.evaluate(trained.graphs(split=split)) for split in ("test", "val"))
    assert test == summary["test_metrics"]
    assert test[trained.target.metric] == summary["test"]
    assert val[trained.target.metric] == summary["best_validation"]


def test_predict_gives_the_numbers_that_were_evaluated(gaps, tmp_path):
    """With standardised targets: read from the file again, they give the same mean error."""
    out = tmp_path / "run"
    assert main(["train", str(gaps), "--target", "weight", "--out", str(out), *SMALL]) == 0
    data = load_data(RunFolder(out).read_config().data)
    rows = read_rows(gaps)
    chosen = [rows[i] for i in data.splits["test"]]
    table = write_table(tmp_path / "test.csv", chosen)
    assert main(["predict", str(out), str(table), "--out", str(tmp_path / "p.csv")]) == 0
    found = read_rows(tmp_path / "p.csv")
    predicted = np.array([row["predicted_weight"] for row in found], dtype=np.float32)
    weights = np.array([row["weight"] for row in found], dtype=np.float32)
    summary = RunFolder(out).read_summary()
    assert np.abs(predicted - weights).mean() == pytest.approx(summary["test"], rel=1e-6)
    graphs = TrainedModel.open(out).graphs()
    model = load_model(out)[0]
    outputs = TrainedModel.open(out).target
    expected = outputs.restore(model(graphs.batch(range(len(graphs)))).detach())
    assert np.array_equal(predicted, expected[:, 0].numpy())
