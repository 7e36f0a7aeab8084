"""Attributions, checked with models whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer import Eigenformer, LaplacianSpectrum, TrainedModel, from_smiles
from eigenformer.analysis.attribution import integrated_gradients, occlusion
from eigenformer.config import EmbeddingSpec, InputFormat, OwnData, RandomWalkSpec
from eigenformer.config.networks import MessagePassingConfig
from eigenformer.data import DataError
from eigenformer.models import Model, build_model
from eigenformer.models.ensemble import Ensemble
from eigenformer.targets import ClassTarget, NumberTarget, Target
from tests.graphs import EDGE_TYPES, NODE_TYPES, random_graph, small_config


def trained_of(model: Model, target: Target | None = None, **changes: object) -> TrainedModel:
    target = target or NumberTarget(names=("y",))
    given = {"input_format": InputFormat(), "data": OwnData(dataset="none"), **changes}
    return TrainedModel("known", model.eval(), target, **given)  # type: ignore[arg-type]


def both_ways(data: Data) -> Data:
    """The graph with every edge in both directions, each once and none from a node to itself."""
    pairs = torch.cat([data.edge_index, data.edge_index.flip(0)], 1)
    pairs = pairs[:, pairs[0] != pairs[1]].unique(dim=1)
    return LaplacianSpectrum()(Data(x=data.x, edge_index=pairs))


def sum_of_nodes(values: torch.Tensor) -> Eigenformer:
    """An Eigenformer whose layers add nothing: it sums a value of each node's type, plus 3."""
    config = small_config(layers=2, edge_encoder=None, degree_scaler="none", last_norm=False)
    model = Eigenformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.fill_(1)
        model.node_encoder.embedding.weight[:, 0] = values
        model.node_encoder.linear.weight[0, 0] = 1
        last = model.head if isinstance(model.head, torch.nn.Linear) else model.head[-1]
        last.weight[0, 0], last.bias[0] = 1, 3
    return model


def test_a_sum_over_nodes_is_taken_apart() -> None:
    values = torch.randn(NODE_TYPES)
    trained = trained_of(sum_of_nodes(values))
    data = both_ways(random_graph(9))
    own = values[data.x[:, 0]].numpy()
    taken, integrated = occlusion(trained, data), integrated_gradients(trained, data)
    for found in (taken, integrated):
        assert found.output == "y"
        assert found.prediction == pytest.approx(own.sum() + 3, abs=1e-3)
        assert np.allclose(found.nodes, own, atol=1e-3)
    assert len(taken.pairs) == data.num_edges // 2
    assert np.abs(taken.edges).max() < 1e-4  # no edge matters
    assert integrated.baseline == pytest.approx(3, abs=1e-5)
    assert integrated.gap < 1e-3
    assert integrated.steps == 16  # a straight line needs no more
    assert np.isnan(taken.gap)


def test_a_model_that_counts_nitrogen_finds_nitrogen() -> None:
    smiles = "CC(=O)Nc1ccncc1N"
    data = from_smiles(smiles, featurizer="zinc")
    nitrogen = np.array([atom == "N" for atom in "CCONCCCNCCN"])
    kinds = set(data.x[nitrogen.tolist(), 0].tolist())
    values = torch.tensor([float(kind in kinds) for kind in range(NODE_TYPES)])
    trained = trained_of(sum_of_nodes(values))
    assert trained.predict([data]).item() == pytest.approx(3 + 3, abs=1e-3)
    for found in (occlusion(trained, data), integrated_gradients(trained, data)):
        assert np.allclose(found.nodes, nitrogen, atol=1e-3)


def test_what_is_removed_is_a_graph_of_its_own() -> None:
    """The spectrum is that of the graph without the node or the edge."""
    trained = trained_of(Eigenformer(small_config()))
    data = random_graph(7)
    data.edge_index = data.edge_index[:, data.edge_index[0] != data.edge_index[1]]
    data.edge_attr = torch.randint(1, EDGE_TYPES, (data.num_edges,))
    data = LaplacianSpectrum()(Data(x=data.x, edge_index=data.edge_index, edge_attr=data.edge_attr))
    before = data.clone()
    found = occlusion(trained, data)
    whole = trained.predict([data]).item()
    for node in range(7):
        rest = data.subgraph(torch.tensor([i for i in range(7) if i != node]))
        parts = {"x": rest.x, "edge_index": rest.edge_index, "edge_attr": rest.edge_attr}
        alone = LaplacianSpectrum()(Data(**parts))
        expected = whole - trained.predict([alone]).item()
        assert found.nodes[node] == pytest.approx(expected, abs=1e-4)
    for (i, j), change in zip(found.pairs.tolist(), found.edges, strict=True):
        there = [sorted(pair) != [i, j] for pair in data.edge_index.T.tolist()]
        rest = Data(x=data.x, edge_index=data.edge_index[:, there], edge_attr=data.edge_attr[there])
        expected = whole - trained.predict([LaplacianSpectrum()(rest)]).item()
        assert change == pytest.approx(expected, abs=1e-4)
    assert np.ptp(found.nodes) > 1e-2  # not the same for all
    for name in ("x", "edge_index", "edge_attr", "eigenvectors"):
        assert torch.equal(data[name], before[name])


@pytest.mark.parametrize("backend", ["auto", "literal"])
def test_integrated_gradients_add_up(backend: str) -> None:
    model = Eigenformer(small_config(feature_attention=True), backend)  # type: ignore[arg-type]
    trained = trained_of(model, NumberTarget(names=("y",), mean=(2.0,), scale=(5.0,)))
    data = random_graph(8)
    found = integrated_gradients(trained, data, tolerance=0.01)
    whole = found.prediction - found.baseline
    assert found.prediction == pytest.approx(trained.predict([data]).item(), abs=1e-4)
    assert abs(whole) > 1e-2
    assert found.nodes.sum() == pytest.approx(whole, rel=0.011)
    rough = integrated_gradients(trained, data, tolerance=0, most_steps=16)
    assert rough.steps == 16
    assert not any(parameter.grad is not None for parameter in model.parameters())
    assert not model.node_encoder._forward_hooks


@pytest.mark.parametrize("kind", ["gine", "gcn"])
def test_other_networks(kind: str) -> None:
    settings = {"encoding": RandomWalkSpec(steps=3, width=4), "layers": 2, "hidden_dim": 16}
    encoder = EmbeddingSpec(NODE_TYPES, width=8)
    model = build_model(MessagePassingConfig(encoder, kind=kind, **settings))  # type: ignore[arg-type]
    trained = trained_of(model)
    data = both_ways(random_graph(6))
    taken, found = occlusion(trained, data), integrated_gradients(trained, data)
    assert taken.prediction == pytest.approx(found.prediction, abs=1e-5)
    assert found.gap <= 0.011 * abs(found.prediction - found.baseline) + 1e-4
    assert np.ptp(taken.nodes) > 1e-4


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    one, two = (sum_of_nodes(torch.randn(NODE_TYPES)) for _ in range(2))
    targets = [NumberTarget(names=("y",)), NumberTarget(names=("y",), mean=(1.0,), scale=(2.0,))]
    together = trained_of(Ensemble([one, two], targets), targets[0])
    data = both_ways(random_graph(5))
    for method in (occlusion, integrated_gradients):
        alone = [
            method(trained_of(m, t), data).nodes for m, t in zip((one, two), targets, strict=True)
        ]
        assert np.allclose(method(together, data).nodes, np.mean(alone, 0), atol=1e-3)


def test_the_output_is_chosen_by_name() -> None:
    model = Eigenformer(small_config(out_channels=3))
    target = ClassTarget(num_outputs=3, names=("a", "b", "c"))
    trained, data = trained_of(model, target), random_graph(6)
    probabilities = trained.predict([data])[0]
    best = int(probabilities.argmax())
    assert occlusion(trained, data).output == "abc"[best]
    found = [occlusion(trained, data, name) for name in "abc"]
    assert [part.prediction for part in found] == pytest.approx(probabilities.tolist(), abs=1e-5)
    # Probabilities sum to 1, so what is taken from one class is given to another.
    assert np.abs(sum(part.nodes for part in found)).max() < 1e-5
    with pytest.raises(ValueError, match="output 'd': unknown"):
        integrated_gradients(trained, data, "d")


def test_what_has_no_attribution() -> None:
    trained = trained_of(Eigenformer(small_config()))
    with pytest.raises(DataError, match="a graph with one node has no prediction without it"):
        occlusion(trained, random_graph(1))
    nodes = replace(
        trained_of(Eigenformer(small_config(pooling="none"))),
        target=NumberTarget(names=("y",), level="node"),
    )
    for method in (occlusion, integrated_gradients):
        with pytest.raises(DataError, match="attributions need a prediction for the graph"):
            method(nodes, random_graph(4))


def test_descriptors_stay() -> None:
    """They are part of every prediction, so a linear head cancels them."""
    model = Eigenformer(small_config(num_descriptors=2))
    trained, data = trained_of(model), random_graph(5)
    data.descriptors = torch.tensor([[1.0, -2.0]])
    other = data.clone()
    other.descriptors = torch.tensor([[30.0, 4.0]])
    one, two = occlusion(trained, data), occlusion(trained, other)
    assert abs(one.prediction - two.prediction) > 0.01
    assert np.allclose(one.nodes, two.nodes, atol=1e-5)
    assert np.allclose(one.edges, two.edges, atol=1e-5)
