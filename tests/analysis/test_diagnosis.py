"""Looking into a model: against loops over its attention, and on models whose state is known."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from eigenformer.analysis.diagnosis import diagnose, diagnosis_table
from eigenformer.analysis.explanation import attention_of
from eigenformer.analysis.matches import untrained
from eigenformer.config import load_preset
from eigenformer.data import GraphDataset
from eigenformer.data.fields import Field
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.models import build_model, comparable
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import LabelTarget, NumberTarget
from eigenformer.training.data_module import EpochBatches
from eigenformer.training.modes import batch_norms
from tests.graphs import EIGENFORMERS

OUTPUTS = LabelTarget(level="node", kind="multilabel")


@pytest.fixture(scope="module")
def dataset() -> GraphDataset:
    archive = pattern((5, 1, 1), seed=3)
    return GraphDataset(archive, memory_spectra(archive))


@pytest.fixture
def model() -> Eigenformer:
    torch.manual_seed(0)
    small = {"layers": 2, "hidden_dim": 8, "heads": 4, "phi_depth": 1, "attention_dropout": 0.5}
    return Eigenformer.from_preset("pattern", phi_gain=8.0, **small)


def fill(model: Eigenformer, phi: str, hidden: float, last: float, bias: float) -> None:
    """Makes φ the function last · ReLU(hidden · x) + bias, in every head."""
    with torch.no_grad():
        for layer in model.layers:
            mlp = getattr(layer.attention, phi)
            for parameter in mlp.parameters():
                parameter.zero_()
            mlp.weights[0][:, 0] = hidden
            mlp.weights[1][:, :, 0] = last
            mlp.biases[1].fill_(bias)


def test_entropies_are_those_of_the_attention(model, dataset):
    found = diagnose(model, dataset, OUTPUTS, limit=3)
    sums = np.zeros((2, 4))
    for place in (0, 3, 6):
        weights = attention_of(model, dataset[place]).weights.double().numpy()
        n = weights.shape[-1]
        for layer, head, node in np.ndindex(2, 4, n):
            row = weights[layer, head, node]
            sums[layer, head] -= sum(p * math.log(p) for p in row if p > 0) / math.log(n) / n / 3
    assert np.allclose([layer.entropy for layer in found.layers], sums, atol=1e-5)
    assert sums.min() < 0.99 < sums.max()
    assert found.even_heads == (sums > 0.99).sum()


def test_even_attention_tells_nodes_nothing_of_their_own(model, dataset):
    fill(model, "phi1", 0, 0, 1)
    found = diagnose(model, dataset, OUTPUTS)
    assert found.even_heads == 8
    for layer in found.layers:
        assert np.allclose(layer.entropy, 1, atol=1e-6)
        assert layer.told_apart < 1e-9
    assert found.gradients["φ₂"] == 0


def test_attention_to_oneself_has_no_entropy(model, dataset):
    fill(model, "phi2", 0, 0, 1)  # a score of 1 with oneself and of 0 with others
    fill(model, "phi1", 1, 1000, 0)
    found = diagnose(model, dataset, OUTPUTS)
    assert found.even_heads == 0
    for layer in found.layers:
        assert np.allclose(layer.entropy, 0, atol=1e-6)
        assert 0.5 < layer.told_apart < 1


def test_drift_is_counted_in_deviations(model, dataset):
    batch, inputs = dataset.batch(range(7)), []
    norm = model.layers[1].norm2
    hook = norm.register_forward_pre_hook(lambda module, values: inputs.append(values[0]))
    with torch.no_grad():
        model.eval()(batch)
    hook.remove()
    norm.running_mean.copy_(inputs[0].mean(0) + 10 * inputs[0].std(0, correction=0))
    found = diagnose(model, dataset, OUTPUTS)
    assert found.layers[1].drift == pytest.approx(10, rel=1e-4)
    assert found.layers[0].drift < 10


def test_filters_are_shown_and_the_last_norm_may_be_missing(dataset):
    torch.manual_seed(0)
    small = {"layers": 2, "hidden_dim": 8, "heads": 4, "phi_depth": 1}
    model = Eigenformer.from_preset("pattern", filters=2, last_norm=False, **small)
    found = diagnose(model, dataset, OUTPUTS, limit=2)
    assert found.gradients["filters"] > 0
    assert found.layers[1].drift > 0
    assert "| filters | " in diagnosis_table(found, found)


def test_gradients_are_those_of_training_steps(model, dataset):
    found = diagnose(model, dataset, OUTPUTS, limit=2, batch_size=4)
    losses, squares, heads = [], [], []
    for places in EpochBatches(7, 4, seed=0):
        batch, copied = dataset.batch(places), copy.deepcopy(model).train()
        torch.manual_seed(0)
        sums, counts = OUTPUTS.loss_sums(copied(batch), OUTPUTS.read(batch))
        loss = OUTPUTS.mean_loss(sums, counts)
        loss.backward()
        norms = [p.grad.norm() for p in copied.parameters() if p.grad is not None]
        losses.append(loss.item())
        squares.append(float(torch.stack(norms).square().sum()))
        head = torch.cat([copied.head.weight.grad.flatten(), copied.head.bias.grad])
        heads.append(float(head.square().sum()))
    assert found.steps == len(losses) == 2
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-6)
    whole = sum(norm**2 for norm in found.gradients.values())
    assert whole == pytest.approx(np.mean(squares), rel=1e-5)
    assert found.gradients["head"] ** 2 == pytest.approx(np.mean(heads), rel=1e-5)
    assert "W_Q, W_K, W_A, W_R" not in found.gradients
    assert found.bias_steps == 0


def test_steps_that_move_the_bias_alone_are_counted(dataset):
    """All errors have one sign: the L1 loss is that of the mean prediction, which is the bias."""
    torch.manual_seed(0)
    sizes = {"layers": 1, "hidden_dim": 8, "pooling": "sum", "out_channels": 1}
    model = Eigenformer.from_preset("pattern", **sizes)
    with torch.no_grad():
        model.head.bias.fill_(1e4)
    zeros = np.zeros(7, np.float32)
    archive = dataset.archive.with_field("y", Field("graph", zeros, zeros.dtype))
    graphs, outputs = GraphDataset(archive, dataset.spectra), NumberTarget()
    found = diagnose(model, graphs, outputs, batch_size=4)
    assert (found.steps, found.bias_steps) == (2, 2)
    frozen = diagnose(model, graphs, outputs, batch_size=4, frozen_norms=True)
    assert frozen.bias_steps == 0
    assert frozen.gradients["encoders"] > 1e3 * found.gradients["encoders"]


@pytest.mark.parametrize("training", [True, False])
def test_the_model_and_the_random_numbers_stay_as_they_are(model, dataset, training):
    model.train(training)
    model.layers[0].norm1.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    diagnose(model, dataset, OUTPUTS, limit=2)
    assert model.training == model.layers[1].norm1.training == training
    assert not model.layers[0].norm1.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("name", EIGENFORMERS)
def test_every_parameter_belongs_to_a_part(name):
    options = {"layers": 1, "norm_affine": True, "degree_scaler": "per_layer"}
    model = Eigenformer(load_preset(name).model.replace(**options))
    parts = model.parts()
    found = [id(p) for parameters in parts.values() for p in parameters]
    assert sorted(found) == sorted(id(p) for p in model.parameters())
    assert ("W_Q, W_K, W_A, W_R" in parts) == model.config.feature_attention
    known = ["encoders", "φ₁", "φ₂", "W_V, W_O, W_E", "θ", "feed-forward", "head"]
    assert [part for part in parts if part in known] == known


def test_the_tables_show_both_models(model, dataset):
    other = untrained(model, seed=1)
    learned, new = (diagnose(m, dataset, OUTPUTS, limit=2, steps=1) for m in (model, other))
    assert (learned.steps, new.steps) == (1, 1)
    table = diagnosis_table(learned, new)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line]
    assert rows[2][0] == "0"
    assert rows[2][2] == f"{min(learned.layers[0].entropy):.4f}"
    assert rows[2][6] == f"{min(new.layers[0].entropy):.4f}"
    assert rows[-1] == ["head", f"{learned.gradients['head']:.1e}", f"{new.gradients['head']:.1e}"]


@pytest.mark.parametrize("convolution", ["gcn", "gine", "gps"])
def test_gradients_and_drift_of_any_network(dataset, convolution):
    config = comparable(convolution, load_preset("pattern").model.replace(layers=2))
    model = build_model(config.replace(layers=2))
    with torch.no_grad():  # statistics of exactly these graphs
        model.train()
        for norm in batch_norms(model):
            norm.momentum = None
        model(dataset.batch(range(len(dataset))))
    found = diagnose(model.eval(), dataset, OUTPUTS)
    assert found.layers == ()
    assert len(found.norms) == len(batch_norms(model)) > 0
    # The first norm comes before any dropout, so that its statistics are those of evaluation.
    first = next(iter(found.norms))
    assert found.norms[first] < 1e-4
    batch_norms(model)[0].running_mean += 1000
    assert diagnose(model, dataset, OUTPUTS).norms[first] > 100
    assert set(found.gradients) == set(model.parts())
    assert min(found.gradients.values()) > 0
    table = diagnosis_table(found, diagnose(untrained(model), dataset, OUTPUTS))
    assert "| batch norm | drift |" in table
    assert "entropy" not in table
