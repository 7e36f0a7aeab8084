r"""Why a model learns or does not: where its attention looks, and which weights the loss moves.

For each layer:

- the entropy of every head's attention, :math:`-\sum_j \alpha[i,j] \log \alpha[i,j] / \log n`,
  averaged over nodes and graphs: 1 for a head with uniform attention, 0 for a head that looks at
  one node;
- how well it tells the nodes of a graph apart: the share of the attended values' variance that is
  within graphs. If every head has uniform attention, all nodes of a graph get the same value,
  except for their edges;
- how far the statistics of its batch norms are from those of the given graphs, in standard
  deviations.

A network without attention has only this drift, of each of its batch norms.

For the model: the norm of the loss's gradient in a training step, for each part, over several
steps. In training, a last batch norm makes the mean prediction of a batch equal to the head's
bias. If all errors of a batch have the same sign, an L1 loss is the error of that mean, and moves
only the bias.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import global_mean_pool

from eigenformer.analysis.adjacency import evenly_spaced
from eigenformer.data.batching import GraphDataset
from eigenformer.frequencies import sample_for
from eigenformer.layer import EigenformerLayer
from eigenformer.models import Eigenformer, Model
from eigenformer.targets import Target
from eigenformer.training.data_module import EpochBatches
from eigenformer.training.modes import batch_norms, freeze_norms
from eigenformer.training.predicting import model_device, predict_batches
from eigenformer.training.receiving import in_time, received

EVEN = 0.99
"""The entropy above which a head's attention is nearly uniform."""

_BATCH = 16
# A gradient below this share of the rest is negligible.
_NOTHING = 0.01


@dataclass(frozen=True)
class LayerDiagnosis:
    """The diagnosis of one layer on a set of graphs.

    Args:
        entropy: The entropy of each head.
        told_apart: The share of the attended values' variance that is within graphs.
        drift: The distance of its batch norms' running means from the means of these graphs, in
            standard deviations of these graphs; the mean over channels, for the norm with the
            larger one.
    """

    entropy: tuple[float, ...]
    told_apart: float
    drift: float


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a model on a set of graphs.

    Args:
        layers: The layers, from the first to the last; empty for a network without attention.
        norms: The drift of each batch norm, by its name, for a network without attention.
        loss: The training loss, the mean over some steps.
        gradients: The norm of the loss's gradient for each part of the model, the root mean square
            over these steps.
        steps: The number of steps.
        bias_steps: The number of steps with a negligible gradient outside the head's bias.
    """

    layers: tuple[LayerDiagnosis, ...]
    norms: dict[str, float]
    loss: float
    gradients: dict[str, float]
    steps: int
    bias_steps: int

    @property
    def even_heads(self) -> int:
        """The number of heads with nearly uniform attention."""
        return sum(entropy > EVEN for layer in self.layers for entropy in layer.entropy)


def diagnose(
    model: Model,
    dataset: GraphDataset,
    target: Target,
    limit: int | None = None,
    batch_size: int = 32,
    frozen_norms: bool = False,
    steps: int = 8,
) -> Diagnosis:
    """Diagnoses a model without changing it.

    Args:
        model: A network of any kind.
        dataset: The graphs.
        target: What the model predicts.
        limit: The number of graphs for layers and norms, evenly spread over the dataset (default:
            all).
        batch_size: The number of graphs per training step.
        frozen_norms: Whether the batch norms use their stored statistics in training.
        steps: The number of training steps for the gradients; at most one epoch.
    """
    chosen = dataset.indices[evenly_spaced(len(dataset), limit)]
    some = GraphDataset(dataset.archive, dataset.spectra, indices=chosen)
    layers: tuple[LayerDiagnosis, ...] = ()
    norms: dict[str, float] = {}
    if isinstance(model, Eigenformer):
        layers = _diagnose_layers(model, some)
    else:
        norms = _diagnose_norms(model, some)
    chosen_batches = islice(EpochBatches(len(dataset), batch_size, seed=0), steps)
    device = model_device(model)
    batches = in_time((received(model, dataset.batch(b), device) for b in chosen_batches), device)
    found = [_gradients(model, batch, target, frozen_norms) for batch in batches]
    squares = {
        part: sum(parts[part] ** 2 for _, parts, _ in found) / len(found) for part in found[0][1]
    }
    return Diagnosis(
        layers,
        norms,
        sum(loss for loss, _, _ in found) / len(found),
        {part: math.sqrt(square) for part, square in squares.items()},
        len(found),
        sum(bias for _, _, bias in found),
    )


def diagnosis_table(learned: Diagnosis, new: Diagnosis) -> str:
    """Returns Markdown tables that compare a trained model with an untrained one."""
    lines = []
    if learned.layers:
        lines += [
            "| layer | entropy | sharpest head | told apart | drift | untrained: entropy | "
            "sharpest head | told apart |",
            "|" + " --- |" * 8,
        ]
    for number, (layer, other) in enumerate(zip(learned.layers, new.layers, strict=True)):
        cells = [str(number), *_cells(layer), f"{layer.drift:.2f}", *_cells(other)]
        lines.append(f"| {' | '.join(cells)} |")
    if learned.norms:
        lines += ["| batch norm | drift |", "| --- | --- |"]
    lines += [f"| {name} | {drift:.2f} |" for name, drift in learned.norms.items()]
    lines += ["", "| part | gradient | untrained |", "| --- | --- | --- |"]
    for part, norm in learned.gradients.items():
        lines.append(f"| {part} | {norm:.1e} | {new.gradients[part]:.1e} |")
    return "\n".join(lines)


def _cells(layer: LayerDiagnosis) -> list[str]:
    mean = sum(layer.entropy) / len(layer.entropy)
    return [f"{mean:.4f}", f"{min(layer.entropy):.4f}", f"{layer.told_apart:.3f}"]


@dataclass
class _Seen:
    """The values that passed through a layer."""

    attended: list[Tensor] = field(default_factory=list)
    norms: tuple[list[Tensor], ...] = field(default_factory=lambda: ([], []))


def _diagnose_layers(model: Eigenformer, graphs: GraphDataset) -> tuple[LayerDiagnosis, ...]:
    entropies: list[Tensor] = []
    graph_of_node: list[Tensor] = []
    with _watched(model) as seen:
        for found in predict_batches(model, graphs, _BATCH, return_attention=True):
            graph_of_node.append(found.batch.batch + _BATCH * len(graph_of_node))
            for layers in zip(*found.attention, strict=True):
                if layers[0].size(-1) > 1:
                    entropies.append(torch.stack([_entropy(weights) for weights in layers]))
    if not entropies:
        raise ValueError("every graph has a single node, so there is no attention to diagnose")
    entropy = torch.stack(entropies).mean(0)
    graph = torch.cat(graph_of_node)
    return tuple(
        LayerDiagnosis(
            tuple(entropy[number].tolist()),
            _within(torch.cat(layer.attended), graph),
            max(
                _drift(norm, torch.cat(given))
                for norm, given in zip(block.norms, layer.norms, strict=False)
            ),
        )
        for number, (block, layer) in enumerate(zip(_layers(model), seen, strict=True))
    )


def _diagnose_norms(model: Model, graphs: GraphDataset) -> dict[str, float]:
    """Returns the drift of each batch norm that the graphs pass through, by its name."""
    norms = {name: m for name, m in model.named_modules() if m in batch_norms(model)}
    given: dict[str, list[Tensor]] = {name: [] for name in norms}
    hooks = [
        norm.register_forward_pre_hook(lambda m, i, k=given[name]: k.append(i[0].cpu()))
        for name, norm in norms.items()
    ]
    try:
        for _ in predict_batches(model, graphs, _BATCH):
            pass
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name.removesuffix(".module"): _drift(norm, torch.cat(given[name]))  # PyG wraps PyTorch's
        for name, norm in norms.items()
        if given[name]
    }


@contextmanager
def _watched(model: Eigenformer) -> Iterator[list[_Seen]]:
    """Records the values that pass through the model's layers."""
    seen = [_Seen() for _ in model.layers]
    hooks = []
    for layer, kept in zip(_layers(model), seen, strict=True):
        hooks.append(
            layer.attention.register_forward_hook(
                lambda m, i, o, k=kept: k.attended.append(o[0].cpu())
            )
        )
        for norm, given in zip(layer.norms, kept.norms, strict=False):  # the last may have one
            hooks.append(norm.register_forward_pre_hook(lambda m, i, k=given: k.append(i[0].cpu())))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _layers(model: Eigenformer) -> list[EigenformerLayer]:
    return [cast(EigenformerLayer, layer) for layer in model.layers]


def _entropy(weights: Tensor) -> Tensor:
    """Returns the entropy of ``[heads, n, n]`` as a share of its maximum: ``[heads]``."""
    return torch.special.entr(weights).sum(-1).mean(-1) / math.log(weights.size(-1))


def _within(values: Tensor, graphs: Tensor) -> float:
    """Returns the share of the variance that is within graphs."""
    values = values.double()
    within = values - global_mean_pool(values, graphs)[graphs]
    total = (values - values.mean(0)).square().sum()
    return float(within.square().sum() / total.clamp(min=1e-300))


def _drift(norm: nn.Module, values: Tensor) -> float:
    """Returns the drift of a norm; 0 for a norm without running statistics."""
    running = getattr(norm, "running_mean", None)
    if running is None:
        return 0.0
    deviation = values.std(0, correction=0).clamp(min=getattr(norm, "eps", 1e-5))
    return float(((running.cpu() - values.mean(0)).abs() / deviation).mean())


def _gradients(
    model: Model, batch: Batch, target: Target, frozen_norms: bool
) -> tuple[float, dict[str, float], bool]:
    """Returns a training step's loss, its gradient norm per part, and if only the bias moves."""
    model = copy.deepcopy(model).train().requires_grad_()  # a step updates batch norm statistics
    if frozen_norms:
        freeze_norms(model)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        predictions = model(sample_for(model.config, batch))
        loss = target.mean_loss(*target.loss_sums(predictions, target.read(batch)))
        parameters = [*model.parameters()]
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    squares = {
        parameter: 0.0 if gradient is None else float(gradient.double().square().sum())
        for parameter, gradient in zip(parameters, gradients, strict=True)
    }
    parts = {part: sum(squares[p] for p in of) for part, of in model.parts().items()}
    bias = 0.0 if model.output_bias is None else squares[model.output_bias]
    bias_alone = sum(squares.values()) - bias < _NOTHING**2 * bias
    return loss.item(), {part: math.sqrt(square) for part, square in parts.items()}, bias_alone
