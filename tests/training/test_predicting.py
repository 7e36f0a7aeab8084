"""The one loop that predicts."""

from __future__ import annotations

import pytest
import torch

from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import NumberTarget
from eigenformer.training.predicting import evaluate, frequency_seeds, predict_batches


@pytest.fixture
def dataset() -> GraphDataset:
    archive = pattern((6, 1, 1))
    return GraphDataset(archive, memory_spectra(archive), indices=[5, 0, 3, 4])


@pytest.fixture
def model() -> Eigenformer:
    return Eigenformer.from_preset("pattern", layers=2, hidden_dim=16, phi_width=4)


def test_all_graphs_in_order(model: Eigenformer, dataset: GraphDataset) -> None:
    found = list(predict_batches(model, dataset, 3))
    assert [batch.places.tolist() for batch in found] == [[5, 0, 3], [4]]
    assert all(not batch.attention for batch in found)
    with torch.no_grad():
        whole = model.eval()(dataset.batch(range(4)))
    assert torch.allclose(torch.cat([batch.output for batch in found]), whole, atol=1e-5)
    graphs = [dataset[place] for place in range(4)]
    listed = torch.cat([batch.output for batch in predict_batches(model, graphs, 3)])
    assert torch.allclose(listed, whole, atol=1e-5)


def test_the_caller_keeps_gradients_and_modes(model: Eigenformer, dataset: GraphDataset) -> None:
    model.train()
    for found in predict_batches(model, dataset, 2):
        assert torch.is_grad_enabled()
        assert not found.output.requires_grad
    assert model.training


def test_attention(model: Eigenformer, dataset: GraphDataset) -> None:
    found = next(predict_batches(model, dataset, 3, return_attention=True))
    sizes = found.batch.ptr.diff().tolist()
    assert [[w.shape[-1] for w in layer] for layer in found.attention] == [sizes] * 2


def test_a_transform_sees_the_places(model: Eigenformer, dataset: GraphDataset) -> None:
    seen: list[int] = []

    def forget(batch, places):
        seen.extend(places.tolist())
        changed = batch.clone()
        changed.x = torch.zeros_like(batch.x)
        return changed

    plain = torch.cat([found.output for found in predict_batches(model, dataset)])
    changed = list(predict_batches(model, dataset, transform=forget))
    assert seen == [5, 0, 3, 4]
    assert not torch.equal(torch.cat([found.output for found in changed]), plain)
    assert changed[0].batch.x.any()  # what is given back is as it was stored
    target = NumberTarget(level="node")
    whole, part = (evaluate(model, dataset, target, transform=t) for t in (None, forget))
    assert whole != part
    assert set(whole) == set(target.metrics)
    assert set(evaluate(model, dataset, target, metrics=["rmse"])) == {"rmse"}


def test_seeds_do_not_depend_on_the_batches(dataset: GraphDataset) -> None:
    together = frequency_seeds(3, dataset.indices)
    single = [frequency_seeds(3, dataset.indices[i : i + 1])[0] for i in range(4)]
    assert together == single
    assert len(set(together)) == 4


def test_predictions_that_are_no_numbers_have_no_metrics(
    model: Eigenformer, dataset: GraphDataset
) -> None:
    with torch.no_grad():
        model.head.bias.fill_(torch.nan)
    with pytest.raises(ValueError, match="predicted values are not finite numbers"):
        evaluate(model, dataset, dataset.archive.target)
