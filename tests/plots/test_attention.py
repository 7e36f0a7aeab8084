from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from eigenformer.analysis.drawing import draw_graph
from eigenformer.analysis.matches import GraphMatches, graph_patterns
from eigenformer.plots import picture_bytes
from eigenformer.plots.attention import draw_attention

ADJACENCY = np.eye(5, k=1) + np.eye(5, k=-1)


@pytest.mark.parametrize("sign", [1, -1])
def test_every_pattern_stands_above_its_head(sign: int) -> None:
    patterns = graph_patterns(ADJACENCY)
    heads = [(layer, 7 - layer) for layer in range(6)]
    scores = np.array([1, 0.9, 0.8, 0.7, 0.6, 0.5 * sign])
    found = GraphMatches(patterns, heads, scores, np.full(6, 2.0), np.full((6, 5, 5), 0.2))
    picture = draw_attention(found, draw_graph(np.argwhere(ADJACENCY).T, 5), "graph 3", "run")
    _, *matrices = picture.body.axes
    titles = [ax.get_title() for ax in matrices]
    assert titles[::2][:5] == ["A", "A²", "A³", "A⁴", "A⁵"]
    assert titles[1] == "layer 0, head 7\n1.00, lift 2"
    # The distance is shown so that dark is where the head looks.
    assert titles[10] == ("−distance" if sign > 0 else "distance")
    assert titles[11].endswith("0.50, lift 2" if sign > 0 else "−0.50, lift 2")
    shown = np.asarray(matrices[10].images[0].get_array())
    assert np.array_equal(shown, -sign * patterns[5])
    assert picture_bytes(picture, "png").startswith(b"\x89PNG")
    assert "graph 3" in picture.caption


def test_a_graph_of_one_node_can_be_drawn() -> None:
    none = np.full(6, np.nan)
    found = GraphMatches(np.zeros((6, 1, 1)), [(0, 0)] * 6, none, none, np.ones((6, 1, 1)))
    picture = draw_attention(found, draw_graph(np.zeros((2, 0), np.int64), 1), "a node", "run")
    assert picture.body.axes[2].get_title() == "layer 0, head 0\nno score"
    assert picture_bytes(picture, "png").startswith(b"\x89PNG")
