"""The page on one graph: all that it shows is in it, exactly enough and small."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenformer.analysis.explanation import Explanation, attention_of, explain
from eigenformer.analysis.filters import learned_filters
from eigenformer.analysis.graph_view import find_graph
from eigenformer.config import MessagePassingConfig
from eigenformer.models import build_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.pages import explain_page
from eigenformer.pages.explain import pack_attention
from eigenformer.targets import NumberTarget
from eigenformer.trained_model import TrainedModel
from tests.pages.test_page import EVIL, _data, _Tags


def test_weights_survive_their_packing() -> None:
    attention = torch.rand(2, 3, 9, 9).pow(4).softmax(-1).numpy()
    attention[0, 0, 0] = np.eye(9)[3]
    weights, peaks = pack_attention(attention)
    steps = np.frombuffer(base64.b64decode(weights), np.uint8).reshape(attention.shape)
    peak = np.frombuffer(base64.b64decode(peaks), "<f4").reshape(attention.shape[:3])
    back = peak[..., None] * (steps / 255) ** 2
    assert np.abs(back - attention).max() <= 0.004 * attention.max()
    assert back[0, 0, 0].tolist() == attention[0, 0, 0].tolist()


def test_a_page_of_forty_atoms_in_96_heads_is_small() -> None:
    model = Eigenformer.from_preset("zinc").eval()
    view = find_graph("C" * 20 + "c1ccccc1" + "N" * 14, featurizer="zinc")
    seen = attention_of(model, view.data)
    explanation = Explanation(
        *("zinc", view, NumberTarget(), seen.prediction.numpy(), None, seen.weights.numpy()),
        learned_filters(model),
    )
    page = explain_page(explanation)
    assert len(view.drawing) == 40
    assert len(page) < 300_000
    data = _data(page)
    assert isinstance(data, dict)
    assert (data["layers"], data["heads"], data["nodes"]) == (12, 8, 40)
    assert data["names"][20] == "C20"
    assert len(base64.b64decode(data["waves"])) == 40 * 40


def test_names_of_graphs_stay_texts(run: Path) -> None:
    explanation = explain(TrainedModel.open(run), "CCO")
    outputs = replace(explanation.target, names=(EVIL,))
    target, view = np.zeros((1, 1)), replace(explanation.view, name=EVIL)
    named = replace(explanation, view=view, model=EVIL, target=outputs, truth=target)
    parser = _Tags()
    parser.feed(explain_page(named))
    assert "img" not in parser.tags
    assert parser.tags.count("script") == 2


def test_contributions_are_drawn_and_told(run: Path) -> None:
    explanation = explain(TrainedModel.open(run), "CCO", attribution=["occlusion", "gradients"])
    occlusion, gradients = explanation.attributions
    occlusion.nodes[:], occlusion.edges[:] = [0.5, -2, 1], [0, 0.25]
    page = explain_page(explanation)
    assert "C1 −2, O2 +1, C0 +0.5, C1–O2 +0.25" in page
    assert "<title>C1: −2</title>" in page
    assert page.count('class="card attribution"') == 2
    assert f"Contributions add up to {gradients.nodes.sum():+.3g}".replace("-", "−") in page
    assert "not exact" not in page
    gradients.nodes[0] += 100
    assert "single contributions are not exact" in explain_page(explanation)
    assert (
        "attribution" not in explain_page(replace(explanation, attributions=())).split("</style")[1]
    )


def test_a_network_without_attention_has_contributions_only(run: Path) -> None:
    trained = TrainedModel.open(run)
    encoder = trained.model.config.node_encoder
    config = MessagePassingConfig(encoder, kind="gin", layers=1, hidden_dim=16)
    other = replace(trained, model=build_model(config).eval())
    with pytest.raises(ValueError, match="has no spectrum-aware attention.*--attribution"):
        explain(other, "CCO")
    page = explain_page(explain(other, "CCO", attribution=["occlusion"]))
    assert "What contributes" in page
    assert "Where a head looks" not in page
    parser = _Tags()
    parser.feed(page)
    assert parser.tags.count("script") <= 2
    for word in ("heads", "Spectrum", "attention weight"):
        assert word not in page.split("</style>")[1]
