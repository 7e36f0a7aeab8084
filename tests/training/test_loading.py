from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.config import BenchmarkData
from eigenformer.data.archive import GraphArchive
from eigenformer.data.spectra import memory_spectra
from eigenformer.targets import LabelTarget
from eigenformer.training import loading


@pytest.mark.parametrize(
    ("benchmark", "metric"), [("peptides-func", "average_precision"), ("pattern", "auroc")]
)
def test_peptides_are_judged_by_average_precision(benchmark, metric, monkeypatch):
    """Labels of graphs: those of that benchmark, and any other ones."""
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(edge_index=edges, num_nodes=2, y=torch.tensor([[0.0, 1.0]])) for _ in range(3)]
    archive = GraphArchive.from_data_list(graphs, levels={"y": "graph"})
    archive = archive.with_target(LabelTarget(num_outputs=2, kind="multilabel")).with_split(
        ["train", "val", "test"]
    )
    prepared = SimpleNamespace(archive=archive, spectra=memory_spectra(archive))
    monkeypatch.setattr(loading, "prepare", lambda *_, **__: prepared)
    data = loading.load_data(BenchmarkData(benchmark))
    assert data.target.metric == metric
    assert len(data.dataset("all")) == 3
