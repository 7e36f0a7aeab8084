"""Which ingredients pay: each is switched on, or off, and the model is trained for equal time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eigenformer.config import RunConfig, load_preset, merge
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.ablation import base_settings
from eigenformer.experiments.budget import Budget, Equal
from eigenformer.experiments.cost import Cost, measure_costs
from eigenformer.experiments.ingredients import PartVariant, part_variants
from eigenformer.experiments.sweep import SweepRun, Variant, sweep
from eigenformer.training.loading import TrainingData

_OWN_DATA = "zinc"
"""The preset whose ingredients are switched for the user's own data."""


@dataclass(frozen=True)
class PartOutcome:
    """The result of one variant.

    Args:
        variant: The variant.
        parameters: The number of parameters of its model.
        cost: The processor time of its training.
        epochs: The number of epochs it was trained for.
        test: The test metric per seed.
    """

    variant: PartVariant
    parameters: int
    cost: Cost
    epochs: int
    test: tuple[float, ...]


@dataclass(frozen=True)
class PartsAblation:
    """The results of all variants. Each variant comes after the preset that it changes.

    Args:
        name: The name of the data.
        metric: The name of the metric.
        higher_is_better: Whether a higher value of the metric is better.
        seeds: The seeds of each variant.
        schedule: How long each run was, in words.
        outcomes: One result per variant.
    """

    name: str
    metric: str
    higher_is_better: bool
    seeds: tuple[int, ...]
    schedule: str
    outcomes: tuple[PartOutcome, ...] = field(repr=False)

    def gains(self, outcome: PartOutcome) -> tuple[float, ...]:
        """Returns the improvement by an ingredient in percent, for each seed.

        It is relative to the model without the ingredient: the paper's preset if the ingredient
        was switched on, and the variant itself if it was switched off.
        """
        (preset,) = (
            o
            for o in self.outcomes
            if o.variant.preset == outcome.variant.preset and not o.variant.ingredient
        )
        sign = 100 if self.higher_is_better else -100
        pairs = zip(preset.test, outcome.test, strict=True)
        if outcome.variant.on:
            return tuple(sign * (switched / own - 1) for own, switched in pairs)
        return tuple(sign * (own / switched - 1) for own, switched in pairs)


def ablate_parts(
    name: str,
    seeds: Sequence[int],
    out: str | Path,
    wanted: Mapping[str, Any],
    ingredients: Sequence[str] = (),
    minutes: float | None = None,
    equal: Equal = "time",
    workspace: Workspace | None = None,
) -> PartsAblation:
    """Switches each ingredient on over the paper's preset, and off from the stronger preset.

    Existing runs are reused or resumed.

    Args:
        name: A preset, or a path to the user's own data.
        seeds: The seeds, with one run per variant and seed.
        out: The folder of the run folders.
        wanted: Settings that differ from the presets'. ``training.epochs`` is the number of epochs
            of the paper's preset.
        ingredients: The names of the ingredients (default: all whose settings are not wanted).
        minutes: The processor minutes of every run, instead of a number of epochs.
        equal: Whether all runs have the same ``time``, or the same number of ``epochs``.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
    """
    workspace = workspace or Workspace.resolve()
    base = base_settings(name, wanted)
    preset = load_preset(base.pop("preset", _OWN_DATA))
    training = dict(base.pop("training", {}))
    epochs = training.pop("epochs", preset.original().training.epochs)
    base = merge(base, {"training": training})
    budget = Budget(epochs, minutes, equal)
    variants = part_variants(preset, ingredients, base)
    costs = measure_costs(base, variants, out, workspace)
    lengths = budget.shared(costs)
    timed = [_with_epochs(variant, lengths[variant.name]) for variant in variants]
    runs = list(sweep(base, timed, seeds, out, workspace, _folder_name))
    outcomes = []
    for number, variant in enumerate(variants):
        own = runs[number * len(seeds) : (number + 1) * len(seeds)]
        outcomes.append(
            PartOutcome(
                variant,
                own[0].summary["parameters"],
                costs[variant.name],
                lengths[variant.name],
                tuple(float(run.summary["test"]) for run in own),
            )
        )
    target = runs[0].data.target
    return PartsAblation(
        runs[0].data.name,
        target.metric,
        target.higher_is_better,
        tuple(seeds),
        _schedule(budget, costs, runs[0]),
        tuple(outcomes),
    )


def _with_epochs(variant: PartVariant, epochs: int) -> PartVariant:
    return replace(variant, settings=merge(variant.settings, {"training": {"epochs": epochs}}))


def _folder_name(config: RunConfig, data: TrainingData, variant: Variant) -> str:
    return f"{variant.name}-seed{config.seed}"


def _schedule(budget: Budget, costs: Mapping[str, Cost], run: SweepRun) -> str:
    graphs = ", ".join(f"{len(graphs)} {split}" for split, graphs in run.data.splits.items())
    if budget.equal == "epochs":
        return f"{budget.epochs} epochs per run, graphs: {graphs}"
    first = next(iter(costs.values()))
    minutes = budget.epochs * first.epoch / 60 if budget.minutes is None else budget.minutes
    return f"{minutes:.3g} processor minutes per run, graphs: {graphs}"
