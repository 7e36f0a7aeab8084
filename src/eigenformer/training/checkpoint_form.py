"""What a checkpoint must look like to be resumed: it may come from a stranger, or from another run.

Lightning and PyTorch believe what a checkpoint says. A fused optimiser does not even compare the
sizes of its averages with those of the weights, and would read beyond them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eigenformer.config.forms import FormError, check_form
from eigenformer.training.checkpoint_io import AtomicCheckpointIO
from eigenformer.training.run_folder import RunError

_COUNTS = {"total": {str: int}, "current": {str: int}}
_WHOLE_FORM = {
    "epoch": int,
    "global_step": int,
    "pytorch-lightning_version": str,
    "state_dict": {str: Tensor},
    "loops": {"fit_loop": {"epoch_progress": _COUNTS}},
    "callbacks": {"Recorder": {str: object}},
    "optimizer_states": [{"state": dict, "param_groups": [{str: object}]}],
    "lr_schedulers": [
        {"base_lrs": [float], "last_epoch": int, "_step_count": int, "_last_lr": [float]}
    ],
}
_RECORDER_FORM = {
    "rows": [{str: float}],
    "best_epoch": int,
    "best": float,
    "best_weights?": (str, None),
    "seconds": [float],
    "processor_seconds?": [float],
}
_EARLY_STOP_FORM = {"wait_count": int, "stopped_epoch": int, "best_score": Tensor, "patience": int}
_FLAGS = ("amsgrad", "maximize", "capturable", "differentiable")
_GROUP_FORM = {
    **dict.fromkeys(("lr", "eps", "weight_decay", "initial_lr"), float),
    **dict.fromkeys(_FLAGS, bool),
    **dict.fromkeys(("foreach", "fused"), (bool, None)),
    "params": [int],
}
_STEP_TYPES = (torch.float32, torch.float64)
_AVERAGES = {"step": Tensor, "exp_avg": Tensor, "exp_avg_sq": Tensor}


def check_resumable(file: Path, module: nn.Module, weights: Sequence[Tensor]) -> None:
    """Raises a :class:`RunError` if a run cannot be resumed from a checkpoint.

    Args:
        file: The checkpoint.
        module: What its weights are loaded into.
        weights: The weights that are optimised, in order.
    """
    state = AtomicCheckpointIO().load_checkpoint(file)
    try:
        check_whole(state)
        check_fitting(state, module, weights)
    except FormError as error:
        raise RunError(f"{file}: damaged, or of another run ({error})") from None


def check_whole(state: Any) -> None:
    """Raises a :class:`FormError` unless a state has the parts of a checkpoint."""
    check_form(state, _WHOLE_FORM)
    version = state["pytorch-lightning_version"]
    if not re.fullmatch(r"\d{1,4}(\.\w{1,20}){1,5}", version, re.A):
        raise FormError(f"pytorch-lightning_version has an unexpected value, {version[:60]!r}")
    _check_counts(state["loops"]["fit_loop"], "loops.fit_loop")
    recorder = state["callbacks"]["Recorder"]
    check_form(recorder, _RECORDER_FORM, "callbacks.Recorder")
    rows = recorder["rows"]
    names = [list(row) for row in rows]
    if any(found != names[0] or "epoch" not in found for found in names):
        raise FormError("callbacks.Recorder.rows do not have the same columns")
    if not 0 <= recorder["best_epoch"] <= len(rows):
        raise FormError(f"callbacks.Recorder.best_epoch is {recorder['best_epoch']}")
    for name, part in state["callbacks"].items():
        if name.startswith("EarlyStopping"):
            check_form(part, _EARLY_STOP_FORM, f"callbacks.{name}")


def check_fitting(state: Mapping[str, Any], module: nn.Module, weights: Sequence[Tensor]) -> None:
    """Raises a :class:`FormError` if a checkpoint belongs to another model.

    Args:
        state: The checkpoint, whose parts are those of one.
        module: What its weights are loaded into.
        weights: The weights that are optimised.
    """
    own = module.state_dict()
    for name in sorted(own.keys() ^ state["state_dict"].keys()):
        raise FormError(f"state_dict.{name} is {'missing' if name in own else 'unknown'}")
    for name, tensor in state["state_dict"].items():
        _check_like(tensor, own[name], f"state_dict.{name}")
    if len(state["optimizer_states"]) != 1 or len(state["lr_schedulers"]) != 1:
        raise FormError("it has another number of optimisers")
    optimizer = state["optimizer_states"][0]
    if len(optimizer["param_groups"]) != 1:
        raise FormError("it has another number of groups of weights")
    (group,) = optimizer["param_groups"]
    check_form(group, _GROUP_FORM, "param_groups")
    check_form(list(group.get("betas", ())), [float], "param_groups.betas")
    if group["params"] != list(range(len(weights))) or len(group["betas"]) != 2:
        raise FormError("it has another number of weights")
    if any(group[flag] for flag in _FLAGS):
        raise FormError("its optimiser is another one")
    for number, averages in optimizer["state"].items():
        place = f"optimizer_states.{number}"
        check_form(averages, _AVERAGES, place)
        if type(number) is not int or not 0 <= number < len(weights):
            raise FormError(f"{place} is unknown")
        for name in ("exp_avg", "exp_avg_sq"):
            _check_like(averages[name], weights[number], f"{place}.{name}")
            if averages[name].dtype != weights[number].dtype:
                raise FormError(f"{place}.{name} is of type {averages[name].dtype}")
        if averages["step"].numel() != 1 or averages["step"].dtype not in _STEP_TYPES:
            raise FormError(f"{place}.step is not a number")


def _check_like(tensor: Tensor, wanted: Tensor, place: str) -> None:
    if tensor.shape != wanted.shape:
        shapes = f"{tuple(tensor.shape)}, expected {tuple(wanted.shape)}"
        raise FormError(f"{place} has shape {shapes}")


def _check_counts(value: Any, place: str) -> None:
    """Checks how far Lightning's loops are: whole numbers in mappings."""
    if isinstance(value, dict):
        if "current" in value or "total" in value:
            check_form({k: v for k, v in value.items() if k != "is_last_batch"}, _COUNTS, place)
        for key, part in value.items():
            _check_counts(part, f"{place}.{key}")
    elif not isinstance(value, int):
        raise FormError(f"{place} has an unexpected value, {repr(value)[:60]}")
