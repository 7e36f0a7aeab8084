"""What a training costs in processor time, measured before it starts."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import Callback

from eigenformer.config import ConfigError, RunConfig, merge
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.sweep import Variant
from eigenformer.files import write_atomic
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.loading import TrainingData
from eigenformer.training.module import TrainingModule
from eigenformer.training.planning import plan
from eigenformer.training.starting import new_model
from eigenformer.training.trainer import limited_threads, make_trainer, quiet

COSTS = "costs.json"
_STEPS, _WARM_UP = 24, 2  # how many steps to take, and how many of them are not measured


@dataclass(frozen=True)
class Cost:
    """Processor seconds of the parts of an epoch. On a GPU, seconds on the clock.

    Args:
        step: One training step: the mean of a few.
        validation: One validation, with the recomputation of statistics.
        steps: The number of steps per epoch.
    """

    step: float
    validation: float
    steps: int

    @property
    def epoch(self) -> float:
        """Seconds per epoch."""
        return self.steps * self.step + self.validation


def measure_cost(config: RunConfig, data: TrainingData) -> Cost:
    """Measures a few steps of a real training, with its validations, in one process."""
    config = config.replace(devices=1, machines=1)
    model, target, _ = new_model(config, data.target, data.targets("train"))
    size = config.training.batch_size
    graphs = GraphDataModule(data.dataset("train"), data.dataset("val"), None, size, config.seed)
    module, clock = TrainingModule(model, target, config.training, config.seed), _Clock()
    steps = len(graphs.train_dataloader())
    with quiet(), limited_threads(config.threads):
        trainer = make_trainer(
            config,
            [clock],
            max_epochs=math.ceil(_STEPS / steps),
            limit_train_batches=_STEPS,
            enable_checkpointing=False,
        )
        trainer.fit(module, datamodule=graphs)
    # The mean, because batches differ in size.
    step = statistics.mean(clock.steps[_WARM_UP:] or clock.steps)
    return Cost(step, statistics.median(clock.validations), steps)


def measure_costs(
    base: Mapping[str, Any], variants: Sequence[Variant], out: str | Path, workspace: Workspace
) -> dict[str, Cost]:
    """Returns the cost of each variant by name.

    Costs are kept in a file in ``out``, because runs can only be resumed with the same number of
    epochs. Only those that are missing there are measured.
    """
    file = Path(out) / COSTS
    known = _read(file)
    for variant in variants:
        if variant.name in known:
            continue
        cost = measure_cost(*plan(merge(base, variant.settings), workspace))
        known[variant.name] = cost
        workspace.reporter.say(f"{variant.name}: {1000 * cost.step:.0f} ms per step")
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {name: asdict(cost) for name, cost in known.items()}
        write_atomic(file, f"{json.dumps(content, indent=1)}\n".encode())
    return {variant.name: known[variant.name] for variant in variants}


def _read(file: Path) -> dict[str, Cost]:
    try:
        content = json.loads(file.read_text("utf-8"))
        return {name: Cost(**cost) for name, cost in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(f"{file}: damaged; delete it to measure again") from None


class _Clock(Callback):
    """Measures steps, each with loading its batch and averaging the weights, and validations."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.validations: list[float] = []
        self._start: float | None = None  # of the current step or validation

    def on_train_batch_start(self, *given: Any) -> None:
        self._end(self.steps)
        self._start = _now()

    def on_validation_start(self, *given: Any) -> None:
        self._end(self.steps)
        self._start = _now()

    def on_validation_end(self, *given: Any) -> None:
        self._end(self.validations)

    def _end(self, times: list[float]) -> None:
        if self._start is not None:
            times.append(_now() - self._start)
        self._start = None


def _now() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()
