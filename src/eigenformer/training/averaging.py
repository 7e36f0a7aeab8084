"""An average of the weights over the steps of training."""

from __future__ import annotations

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

_Tensors = tuple[Tensor, ...] | list[Tensor]


def moving_average(model: nn.Module, decay: float) -> AveragedModel:
    r"""Returns a copy of a model that averages its weights: ``update_parameters`` adds a step.

    .. math::
        \bar{w}_t = \delta_t \, \bar{w}_{t-1} + (1 - \delta_t) \, w_t, \qquad
        \delta_t = \min\bigl(\delta, \tfrac{1 + t}{10 + t}\bigr)

    The decay :math:`\delta_t` starts low, so that the average soon forgets the initial weights,
    also in a run that is not much longer than :math:`1 / (1 - \delta)` steps. Buffers, such as the
    statistics of batch norms, are copied.

    Args:
        model: The model that is trained.
        decay: :math:`\delta`, in [0, 1).
    """

    def update(averages: _Tensors, weights: _Tensors, count: Tensor | int) -> None:
        step = int(count)
        get_ema_multi_avg_fn(min(decay, (1 + step) / (10 + step)))(averages, weights, count)

    averaged = AveragedModel(model, multi_avg_fn=update)
    return averaged.requires_grad_(False)  # DDP would wait for the gradients
