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

VARIANTS = [name for name in presets() if load_preset(name).variant_of]
OTHERS = [name for name in presets() if load_preset(name).model.kind != "eigenformer"]
OWN = [name for name in presets() if not load_preset(name).dataset]
PAPER = [name for name in presets() if name not in (*VARIANTS, *OTHERS, *OWN)]


def test_the_paper_has_fourteen():
    assert len(PAPER) == 14
    for name in PAPER:
        preset = load_preset(name)
        assert preset.name == name
        assert preset.dataset == name.removesuffix("-feat")
        assert preset.model.feature_attention == name.endswith("-feat")
        assert preset.original() is preset
        assert (preset.variant, preset.described_changes()) == ("", "")
        assert Preset.from_dict(preset.to_dict()) == preset


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_the_papers_model_but_for_what_it_says(name):
    preset = load_preset(name)
    original = preset.original()
    assert original.name in PAPER
    assert name == f"{original.name}-{preset.variant}"
    assert (preset.dataset, preset.paper) == (original.dataset, original.paper)
    assert (preset.model, preset.training) != (original.model, original.training)
    assert preset.described_changes()
    assert Preset.from_dict(preset.to_dict()) == preset


def test_the_other_networks_have_presets_for_the_benchmarks():
    datasets = ("zinc", "pattern", "cluster", "mnist", "cifar10", "peptides-func")
    for network in ("gine", "gatedgcn", "gps", "grit"):
        assert {f"{dataset}-{network}" for dataset in datasets} <= set(OTHERS)
    for name in OTHERS:
        preset = load_preset(name)
        assert name == f"{preset.dataset}-{preset.model.kind}"
        assert preset.original() is preset
        assert preset.paper is not None
        assert preset.paper.source
        ours = load_preset(preset.dataset).model
        assert (preset.model.out_channels, preset.model.pooling) == (
            ours.out_channels,
            ours.pooling,
        )


def test_the_preset_for_own_data_trains_for_as_many_epochs_as_the_table_needs():
    assert OWN == ["molecules"]
    preset = load_preset("molecules")
    assert Preset.from_dict(preset.to_dict()) == preset
    training, steps = preset.training, preset.steps
    assert steps is not None
    assert preset.schedule(training, 100).epochs == training.epochs  # at most
    assert preset.schedule(training, 10**6).epochs == 20  # at least
    graphs = training.batch_size * steps // 50
    found = preset.schedule(training, graphs)
    assert found.epochs == 50
    assert found.warmup_epochs == training.warmup_epochs * 50 / training.epochs
    assert preset.schedule(training.replace(epoch_steps=steps // 25), graphs).epochs == 25
    assert load_preset("zinc").schedule(training, 100) == training


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
