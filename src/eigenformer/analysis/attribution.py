"""What each node and edge of a graph contributes to a model's prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.analysis.drawing import undirected
from eigenformer.data.archive import GraphArchive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.errors import DataError
from eigenformer.models.ensemble import Ensemble
from eigenformer.nearest import unknown
from eigenformer.trained_model import TrainedModel
from eigenformer.training.modes import evaluation_mode
from eigenformer.training.receiving import received

_MOST_PAIRS = 4_000_000
"""The most pairs of nodes in a batch of changed or repeated graphs."""
_MOST_GRAPHS = 128


@dataclass(frozen=True, eq=False)
class Attribution:
    """What nodes and edges contribute to one output of a model for one graph.

    Args:
        method: ``occlusion`` or ``gradients``.
        output: The name of the output.
        prediction: The output for the graph, in the user's units or as a probability.
        nodes: The contribution of each node, ``[n]``, in the same units. Positive if the node
            raises the prediction.
        pairs: The edges that contribute, ``[m, 2]``, each once; empty if the method has none.
        edges: The contribution of each of them, ``[m]``.
        baseline: The output that the contributions of the nodes start from; NaN for occlusion.
        steps: The number of steps of the integral; 0 for occlusion.
    """

    method: str
    output: str
    prediction: float
    nodes: np.ndarray
    pairs: np.ndarray
    edges: np.ndarray
    baseline: float = float("nan")
    steps: int = 0

    @property
    def gap(self) -> float:
        """How far the contributions are from adding up to the prediction; NaN for occlusion."""
        return abs(float(self.nodes.sum()) - (self.prediction - self.baseline))


def occlusion(trained: TrainedModel, data: Data, output: str | None = None) -> Attribution:
    """Returns what removing each node, and each edge, takes away from the prediction.

    A node is removed with its edges. The spectrum, and any encoding, of each changed graph is
    computed anew. All features and descriptors that remain are left as they are.

    Args:
        trained: The model. It must predict for graphs.
        data: The graph.
        output: The name of the output (default: the most probable class, or the first output).
    """
    _check(trained)
    whole = _plain(data)
    count = whole.num_nodes or 0
    if count < 2:
        raise DataError("a graph with one node has no prediction without it")
    pairs = undirected(whole.edge_index.numpy())

    def changed() -> Iterator[Data]:
        yield whole
        yield from (_without_node(whole, node) for node in range(count))
        yield from (_without_edge(whole, *pair) for pair in pairs.tolist())

    size = _batch_size(count)
    rows: list[np.ndarray] = []
    for chunk in _chunks(changed(), size):
        rows.append(trained.predict(plain_archive(trained, chunk), size).double().numpy())
    values = np.concatenate(rows)
    column, name = _column(trained, output, values[0])
    lost = values[0, column] - values[1:, column]
    return Attribution(
        "occlusion", name, float(values[0, column]), lost[:count], pairs, lost[count:]
    )


def integrated_gradients(
    trained: TrainedModel,
    data: Data,
    output: str | None = None,
    tolerance: float = 0.01,
    most_steps: int = 1024,
) -> Attribution:
    r"""Returns integrated gradients of the prediction by the encoded features of each node.

    The features :math:`h` that the node encoder makes grow from zero to their value, and the
    contribution of node i is

    .. math::
        \sum_c h_{ic} \int_0^1 \frac{\partial f(\alpha h)}{\partial h_{ic}} \, d\alpha,

    after `"Axiomatic Attribution for Deep Networks" <https://arxiv.org/abs/1703.01365>`_. The
    contributions add up to :math:`f(h) - f(0)`. The number of steps of the integral is doubled
    until they do.

    Args:
        trained: The model. It must predict for graphs.
        data: The graph.
        output: The name of the output (default: the most probable class, or the first output).
        tolerance: The largest :attr:`Attribution.gap`, relative to :math:`f(h) - f(0)`.
        most_steps: The largest number of steps. The gap may be larger with it.
    """
    _check(trained)
    graph = trained.dataset(plain_archive(trained, [data]))
    path = _Path(trained, graph, data.num_nodes or 0)
    nothing, all_of_it = path.values(torch.tensor([0.0, 1.0]).double())
    column, name = _column(trained, output, all_of_it)
    baseline, prediction = float(nothing[column]), float(all_of_it[column])
    steps, none = 16, np.zeros(0)
    while True:
        nodes = path.integral(column, steps)
        found = Attribution(
            *("gradients", name, prediction, nodes, np.zeros((0, 2), np.int64), none),
            baseline,
            steps,
        )
        # What float32 can tell apart is enough.
        least = 1e-5 * max(abs(prediction), abs(baseline), 1e-30)
        if found.gap <= max(tolerance * abs(prediction - baseline), least):
            return found
        if 2 * steps > most_steps:
            return found
        steps *= 2


METHODS: dict[str, Callable[[TrainedModel, Data, str | None], Attribution]] = {
    "occlusion": occlusion,
    "gradients": integrated_gradients,
}
"""The methods by name."""


class _Path:
    """A model on the straight path from no features to those of a graph."""

    def __init__(self, trained: TrainedModel, graph: GraphDataset, num_nodes: int) -> None:
        self._trained, self._graph, self._nodes = trained, graph, num_nodes
        model = trained.model
        members: list[Any] = [*model.members] if isinstance(model, Ensemble) else [model]
        self._encoders: list[nn.Module] = [member.node_encoder for member in members]

    def values(self, places: Tensor) -> np.ndarray:
        """Returns all outputs at some places of the path, ``[places, outputs]``."""
        with torch.no_grad():
            return self._run(places)[0].double().cpu().numpy()

    def integral(self, column: int, steps: int) -> np.ndarray:
        """Returns the integral of the gradient times the features, by the midpoint rule."""
        total = np.zeros(self._nodes)
        middles = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
        for places in middles.split(_batch_size(self._nodes)):
            values, seen = self._run(places)
            gradients = torch.autograd.grad(values[:, column].sum(), [at for _, at in seen])
            for (full, _), gradient in zip(seen, gradients, strict=True):
                parts = (full * gradient).double().sum(1).view(len(places), -1).sum(0)
                total += parts.cpu().numpy() / steps
        return total

    def _run(self, places: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Returns the outputs in units, and per encoder all features and those at the places."""
        trained, seen = self._trained, []
        batch = self._graph.batch([0] * len(places))
        rows = places.repeat_interleave(self._nodes)[:, None]

        def scale(module: nn.Module, inputs: Any, encoded: Tensor) -> Tensor:
            full = encoded.detach()
            at = (full * rows.to(full)).requires_grad_(torch.is_grad_enabled())
            seen.append((full, at))
            return at

        with ExitStack() as stack:
            stack.enter_context(evaluation_mode(trained.model))
            for encoder in self._encoders:
                stack.enter_context(_hooked(encoder, scale))
            given = received(trained.model, batch, trained.device)
            values = trained.target.in_units(trained.model(given))
        return values, seen


@contextmanager
def _hooked(module: nn.Module, hook: Callable[..., Tensor]) -> Iterator[None]:
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def plain_archive(trained: TrainedModel, graphs: Sequence[Data]) -> GraphArchive:
    """Returns graphs without anything that is computed from them, such as a spectrum."""
    return GraphArchive.from_data_list(list(map(_plain, graphs)), limits=trained.limits)


def _check(trained: TrainedModel) -> None:
    if trained.target.of_nodes:
        raise DataError(
            f"{trained.name}: predicts for nodes; attributions need a prediction for the graph"
        )


def _plain(data: Data) -> Data:
    names = ("x", "edge_index", "edge_attr", "descriptors")
    plain = Data(**{name: data[name] for name in names if data.get(name) is not None})
    plain.num_nodes = data.num_nodes
    if plain.edge_index is None:
        plain.edge_index = torch.zeros(2, 0, dtype=torch.long)
    return plain


def _without_node(data: Data, node: int) -> Data:
    keep = torch.ones(data.num_nodes or 0, dtype=torch.bool)
    keep[node] = False
    place = keep.long().cumsum(0) - 1
    there = keep[data.edge_index].all(0)
    changed = _with_edges(data, there)
    changed.edge_index = place[changed.edge_index]
    if data.x is not None:
        changed.x = data.x[keep]
    changed.num_nodes = int(keep.sum())
    return changed


def _without_edge(data: Data, i: int, j: int) -> Data:
    source, target = data.edge_index
    return _with_edges(data, ~((source == i) & (target == j) | (source == j) & (target == i)))


def _with_edges(data: Data, there: Tensor) -> Data:
    changed = Data(**data.to_dict())
    changed.edge_index = data.edge_index[:, there]
    if data.edge_attr is not None:
        changed.edge_attr = data.edge_attr[there]
    return changed


def _batch_size(num_nodes: int) -> int:
    return max(1, min(_MOST_GRAPHS, _MOST_PAIRS // max(num_nodes, 1) ** 2))


def _chunks(graphs: Iterator[Data], size: int) -> Iterator[list[Data]]:
    chunk: list[Data] = []
    for graph in graphs:
        chunk.append(graph)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _column(trained: TrainedModel, output: str | None, row: np.ndarray) -> tuple[int, str]:
    """Returns the column of an output, and its name."""
    names: Sequence[str] = trained.target.column_names
    if output is not None:
        check_output(trained, output)
        return names.index(output), output
    # Of several probabilities of one value, the largest.
    column = int(np.argmax(row)) if trained.target.num_values < len(names) else 0
    return column, names[column]


def check_output(trained: TrainedModel, output: str) -> None:
    """Raises an error if a model has no output with this name."""
    names = trained.target.column_names
    if output not in names:
        raise ValueError(unknown(f"output '{output}'", output, names))
