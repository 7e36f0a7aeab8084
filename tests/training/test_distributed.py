"""Two processes do what one does."""

from __future__ import annotations

import pytest

from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, finish

_EXACT = [
    *("--epochs", "2", "--training.freeze_norms", "true"),
    *("--model.attention_dropout", "0", "--model.dropout", "0"),
]


def test_two_processes_have_the_losses_of_one(table, tmp_path):
    rows = {}
    for devices in (1, 2):
        out = f"run{devices}"
        arguments = ["train", table, "--target", "weight", "--out", out, *SMALL, *_EXACT]
        code, output = finish(*arguments, "--devices", devices, cwd=tmp_path)
        assert code == 0, output
        rows[devices] = RunFolder(tmp_path / out).read_metrics()
        if devices == 2:
            assert "batch norm is not synchronised" in output
    assert len(rows[2]) == 2
    for alone, together in zip(rows[1], rows[2], strict=True):
        for name in ("train_loss", "val_loss"):
            assert together[name] == pytest.approx(alone[name], rel=1e-4), name
    summaries = [RunFolder(tmp_path / f"run{n}").read_summary() for n in (1, 2)]
    assert summaries[1]["test"] == pytest.approx(summaries[0]["test"], rel=1e-4)
    assert summaries[1]["processes"] == 2
