"""Every preset can be drawn, and its own shapes stand in the boxes."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from eigenformer.analysis.architecture import architecture, architecture_of
from eigenformer.config import load_preset
from eigenformer.models import Eigenformer
from eigenformer.plots import Picture
from eigenformer.plots.architecture import draw_architecture
from tests.graphs import EIGENFORMERS


def parts(picture: Picture) -> list[list[str]]:
    return [[text.get_text() for text in ax.texts] for ax in picture.body.axes]


@pytest.mark.parametrize("name", EIGENFORMERS)
def test_presets(name: str) -> None:
    found = architecture(name)
    config = found.config
    picture = draw_architecture(found)
    attention, layer, model = parts(picture)
    d, p = config.hidden_dim, config.phi_width
    assert attention.count(f"1 → {p} → {p} → 1") == 2
    assert attention.count(f"8 × n × {d // 8}") == 1
    assert ("$W_Q$" in attention) == config.feature_attention
    assert ("$W_E$" in attention) == (config.edge_encoder is not None)
    relation = config.feature_attention and config.edge_encoder is not None
    assert (r"$W_R\,\rho(W_A e)$" in attention) == relation
    assert f"{d} → {d} → {d}" in layer
    assert f"{config.layers} layers (b)" in model
    assert any(text.endswith(f" → {config.out_channels}") for text in model)
    assert ("plus node potentials" in model) == bool(config.node_potentials)
    assert ("plus local branch" in layer) == (config.local_branch is not None)
    assert ("plus spectral filters" in layer) == bool(config.filters)
    assert ("not in the last layer" in layer) == (not config.last_norm)
    assert f"{found.parameters:,} parameters" in picture.caption
    # Nothing sticks out, and nothing is too small.
    for ax in picture.body.axes:
        for text in ax.texts:
            assert text.get_fontsize() >= 7
            extent = text.get_window_extent()
            assert ax.bbox.x0 <= extent.x0
            assert extent.x1 <= ax.bbox.x1 + 1


def test_parameters_are_counted() -> None:
    found = architecture("zinc")
    assert found.parameters == 509849
    # φ₁ and φ₂ of eight heads, W_V, W_O, W_E and two maps of the FFN; norms have none.
    assert found.layer_parameters == 8 * (2 * 28**2 + 8 * 28 + 2) + 5 * (72**2 + 72)


def test_options_are_seen() -> None:
    config = load_preset("zinc").model.replace(
        degree_scaler="none",
        dropout=0.1,
        ffn_width=144,
        norm_affine=True,
        pooling="none",
        input_norm=False,
        phi_depth=1,
        attention_dropout=0.0,
        drop_path=0.1,
        filters=12,
        last_norm=False,
    )
    picture = draw_architecture(architecture_of("mine", Eigenformer(config)))
    assert "Drop path grows to 0.1 in the last layer." in picture.caption
    attention, layer, model = parts(picture)
    assert attention.count("1 → 28 → 1") == 2
    assert not [text for text in attention if text.startswith("dropout")]
    assert {"72 → 144 → 72", "dropout 0.1", "scales and shifts"} <= set(layer)
    assert {"plus spectral filters", "12 of the nodes", "not in the last layer"} <= set(layer)
    assert not [text for text in layer if "theta" in text]
    assert "each node by itself" in model
    assert "batch norm" not in model
