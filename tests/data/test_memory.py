"""What training on CIFAR10 keeps in memory of its own, pages of mapped files not counted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from eigenformer.data import BENCHMARKS, prepare
from eigenformer.data.workspace import Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

# A whole shuffled pass over the graphs, with training steps on the first batches.
PASS = """
import sys, torch
from eigenformer import Eigenformer, load_preset
from eigenformer.data import Workspace, keep_batch, prepare
from torch.utils.data import DataLoader

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

torch.manual_seed(0)
dataset = prepare("cifar10", Workspace.resolve(sys.argv[1], sys.argv[2])).dataset("train")
model = Eigenformer(load_preset("cifar10").model)
optimizer = torch.optim.AdamW(model.parameters())
most = 0
for number, batch in enumerate(DataLoader(dataset, 16, True, collate_fn=keep_batch)):
    if number < 20:
        torch.nn.functional.cross_entropy(model(batch), batch.y).backward()
        optimizer.step()
    most = max(most, anonymous())
print(most)
"""


def kilobytes(raw_dir, tmp_path, count):
    """The largest anonymous memory of a process that trains on the first ``count`` pictures."""
    raw, cache = tmp_path / f"raw{count}", tmp_path / f"cache{count}"
    (raw / "cifar10").mkdir(parents=True)
    with np.load(raw_dir / "cifar10" / "test.npz") as file:
        arrays = {name: file[name] for name in file.files}
    ends = {"n_nodes": count, "label": count}
    rows = int(arrays["n_nodes"][:count].sum())
    few = {name: values[: ends.get(name, rows)] for name, values in arrays.items()}
    for split in ("train", "val", "test"):
        np.savez(raw / "cifar10" / f"{split}.npz", **few)
    prepare("cifar10", Workspace(raw, cache))
    command = [sys.executable, "-c", PASS, str(raw), str(cache)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_training_on_all_of_cifar10_stays_under_three_gigabytes(raw_dir, tmp_path):
    small, large = (kilobytes(raw_dir, tmp_path, count) for count in (500, 2500))
    per_graph = max(0, large - small) / 6000  # a set holds the pictures three times
    whole = small + per_graph * BENCHMARKS["cifar10"].graphs
    print(f"{small} and {large} kB; {per_graph:.1f} kB per graph; {whole / 1e6:.2f} GB for all")
    assert whole < 3e6
    # Its spectrum alone is 55 kB; none of it may stay.
    assert per_graph < 10
