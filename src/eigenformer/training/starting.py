"""The model that a training starts with: a new one, or one with the weights of another."""

from __future__ import annotations

import numpy as np
import torch

from eigenformer.config import RunConfig
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.model_folder import load_model
from eigenformer.models import Model, build_model
from eigenformer.pretrained import PRETRAINED, model_folder_of
from eigenformer.targets import Target
from eigenformer.training.planning import check_start
from eigenformer.training.run_folder import RunError
from eigenformer.training.seeding import derived_seed


def new_model(
    config: RunConfig,
    target: Target,
    targets: np.ndarray,
    descriptors: np.ndarray | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Model, Target, list[str]]:
    """Returns the model to train, its target, and messages for the user.

    If ``config.start`` is set, the weights are copied from that model. An encoder
    is copied only if its settings are the same. The head, and with it the standardisation of the
    targets, is copied only if the task is the same.

    Args:
        config: The settings of the run.
        target: What is predicted.
        targets: The training targets. The initial bias of the head may be computed from them.
        descriptors: The descriptors of the training graphs, which are standardised.
        limits: How large a model to start from may be.
    """
    target = target.learned(config.training.loss, config.training.class_balance)
    torch.manual_seed(derived_seed(config.seed, "weights"))
    model = build_model(config.model, config.backend)
    if config.training.initial_bias == "targets":
        start_at_targets(model, target, targets)
    if model.descriptor_encoder is not None and descriptors is not None:
        model.descriptor_encoder.fit(torch.from_numpy(np.array(descriptors)))
    if config.start is None:
        return model, target, []
    source, card = load_model(model_folder_of(config.start), limits=limits)
    check_start(config.start, card.architecture, config.model.kind)
    same_task = card.target is not None and card.target.same_as(target)
    fresh = [] if same_task else ["head"]
    if card.architecture.num_descriptors != config.model.num_descriptors:
        fresh = ["head", "descriptor_encoder"]
    for part in ("node_encoder", "edge_encoder"):
        if getattr(card.architecture, part) != getattr(config.model, part):
            fresh.append(part)
    theirs, ours = card.architecture.to_dict(), config.model.to_dict()
    differences = ", ".join(
        f"model.{name} is {theirs.get(name)}, expected {ours[name]}"
        for name in ours
        if theirs.get(name) != ours[name]
        and name not in (*fresh, "out_channels", "num_descriptors")
    )
    own = model.state_dict()
    taken = {k: v for k, v in source.state_dict().items() if k.split(".")[0] not in fresh}
    for name, tensor in taken.items():
        if name not in own or own[name].shape != tensor.shape:
            raise RunError(f"{config.start}: the model does not match the settings: {differences}")
    for name in own:
        if name not in taken and name.split(".")[0] not in fresh:
            raise RunError(f"{config.start}: the model does not match the settings: {differences}")
    model.load_state_dict({**own, **taken})
    if same_task and card.target is not None:
        target = card.target.judged(target.judged_by)
        target = target.learned(config.training.loss, config.training.class_balance)
    said = f"starting from {config.start}"
    if config.start in PRETRAINED:
        said = f"starting from the pretrained weights '{config.start}' (--from none for new ones)"
    return model, target, [f"{said}; newly initialised: {', '.join(fresh)}" if fresh else said]


@torch.no_grad()
def start_at_targets(model: Model, target: Target, targets: np.ndarray) -> None:
    """Sets the bias of a model's head to the constant prediction that fits the targets."""
    bias = target.initial_bias(targets)
    if bias is not None and model.output_bias is not None:
        model.output_bias.copy_(bias)
