"""The page on one graph: all that it shows is in it, exactly enough and small."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from eigenformer.analysis.explanation import Explanation, attention_of, explain
from eigenformer.analysis.filters import learned_filters
from eigenformer.analysis.graph_view import find_graph
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
