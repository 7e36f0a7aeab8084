from __future__ import annotations

import pytest

from eigenformer.config import (
    ConfigError,
    EmbeddingSpec,
    LinearSpec,
    OnesSpec,
    Preset,
    load_preset,
    presets,
)


def test_there_are_fourteen_presets():
    assert len(presets()) == 14
    for name in presets():
        preset = load_preset(name)
        assert preset.name == name
        assert preset.dataset == name.removesuffix("-feat")
        assert preset.model.feature_attention == name.endswith("-feat")
        assert Preset.from_dict(preset.to_dict()) == preset


def test_presets_hold_the_papers_tables():
    zinc = load_preset("zinc-feat")
    assert zinc.model.node_encoder == EmbeddingSpec(22)
    assert zinc.model.edge_encoder == EmbeddingSpec(4, no_edge_type=0)
    assert (zinc.model.psi, zinc.model.attention_dropout, zinc.model.pooling) == (
        "signed_sqrt",
        0.2,
        "sum",
    )
    assert (zinc.training.batch_size, zinc.training.epochs) == (512, 2000)
    assert zinc.training.betas == (0.9, 0.99)
    assert load_preset("cifar10-feat").model.psi == "identity"
    assert load_preset("cluster").model.edge_encoder == OnesSpec()
    assert load_preset("cluster-feat").model.edge_encoder is None
    assert load_preset("peptides-func").model.edge_encoder == LinearSpec(3, bias=False)


def test_unknown_preset():
    with pytest.raises(ConfigError, match="preset 'zink': unknown; the nearest is 'zinc'"):
        load_preset("zink")
