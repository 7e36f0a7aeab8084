"""An Eigenformer as a function of plain tensors, for ``torch.export``."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch_geometric.data import Data

from eigenformer.encoders import FeatureEncoder, OnesEncoder
from eigenformer.files import write_atomic
from eigenformer.kernels import make_kernel
from eigenformer.models.base import Model, no_spectral_attention
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.models.ensemble import Ensemble
from eigenformer.ragged import RaggedGraphs
from eigenformer.spectrum import LaplacianSpectrum
from eigenformer.targets import Target

ExportBackend = Literal["literal", "torch"]
"""The kernels that can be exported. ``torch`` needs an operator of this package."""

ABOUT = "eigenformer.json"
"""The file inside an exported program that says what goes in and out."""


class SingleGraph(nn.Module):
    """Predicts for one graph of any size, from tensors instead of a PyG object.

    The inputs are the attributes of a :class:`torch_geometric.data.Data` after
    :class:`LaplacianSpectrum`, with U as a matrix ``[n, k]``. They are not checked: edges must be
    distinct, and features must be valid.

    Args:
        model: The model to wrap, in evaluation mode.
        target: What the model predicts, to return predictions in its units (default: the model's
            outputs).
        backend: How attention is computed, whatever the ``backend`` of the model. ``literal``
            consists of PyTorch's own operators only. ``torch`` is faster for large graphs, but
            calls an operator of this package, which must be imported where the program runs.
    """

    def __init__(
        self, model: Eigenformer, target: Target | None = None, backend: ExportBackend = "torch"
    ) -> None:
        super().__init__()
        if model.config.num_descriptors:
            raise ValueError("a model with descriptors beside the graph cannot be exported")
        self.model = model
        self.target, self.backend = target, backend

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        eigenvalues: Tensor,
        eigenvectors: Tensor,
    ) -> Tensor:
        """Returns predictions ``[1, out]``, or ``[n, out]`` for a node task."""
        n = x.size(0)
        if isinstance(self.model.edge_encoder, OnesEncoder):  # which counts edges only
            edge_attr = edge_index.new_zeros(edge_index.size(1), 0)
        # Dense, unlike spectrum.node_degrees, because shapes must not depend on the data here.
        adjacency = torch.zeros(n, n, dtype=torch.bool, device=x.device)
        adjacency = adjacency.index_put(tuple(edge_index), adjacency.new_ones(()))
        adjacency = (adjacency | adjacency.T) & ~torch.eye(n, dtype=torch.bool, device=x.device)
        graphs = RaggedGraphs(
            sizes=(n,),
            num_frequencies=(eigenvalues.size(0),),
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors.flatten(),
            edge_index=edge_index,
            degrees=adjacency.sum(1),
            node_graph=torch.zeros(n, dtype=torch.long, device=x.device),
        )
        output = self.model.predict(x, edge_attr, make_kernel(graphs, self.backend))
        return output if self.target is None else self.target.in_units(output)


def export_program(
    model: Model, target: Target | None = None, backend: ExportBackend = "literal"
) -> ExportedProgram:
    """Exports a model as a program for one graph of any size, with at least two nodes.

    The arguments are those of :class:`SingleGraph`, whose inputs and outputs the program has.
    """
    if isinstance(model, Ensemble):
        raise ValueError("an ensemble cannot be exported as one program; export its members")
    if not isinstance(model, Eigenformer):
        raise ValueError(no_spectral_attention(model))
    example, size = inputs_of(_ring(model)), Dim.DYNAMIC
    edges = None if example[2] is None else {0: size}
    shapes = ({0: size}, {1: size}, edges, {0: size}, {0: size, 1: size})
    single = SingleGraph(model, target, backend).eval()
    with torch.no_grad(), _without_warnings():
        program = torch.export.export(single, example, dynamic_shapes=shapes)
        # Without regions of autocast, which cannot be saved.
        return program.run_decompositions({})


def save_program(program: ExportedProgram, out: str | Path, about: Mapping[str, Any]) -> None:
    """Writes a program as a ``.pt2`` file, with plain values about it, which must fit JSON."""
    out = Path(out)
    if out.suffix.lower() != ".pt2":
        raise ValueError(f"{out}: exported programs are .pt2 files; give such a name")
    stream = io.BytesIO()
    text = json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False)
    with _without_warnings():
        torch.export.save(program, stream, extra_files={ABOUT: text})
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, stream.getvalue())


def inputs_of(data: Data) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """Returns a graph with its spectrum as the inputs of an exported program.

    Features are matrices, also if they have one column.
    """
    edges = data.get("edge_attr")
    vectors = data.eigenvectors.view(data.num_nodes, -1)
    edge_attr = None if edges is None else _matrix(edges)
    return _matrix(data.x), data.edge_index, edge_attr, data.eigenvalues, vectors


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hides what PyTorch says about its own use of what it deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _matrix(features: Tensor) -> Tensor:
    return features[:, None] if features.dim() == 1 else features


def _ring(model: Eigenformer) -> Data:
    """Returns a graph that the model can read."""
    nodes = torch.arange(6)
    there = torch.stack([nodes, nodes.roll(1)])
    data = Data(x=_features(model.node_encoder, 6), edge_index=torch.cat([there, there.flip(0)], 1))
    if model.edge_encoder is not None and not isinstance(model.edge_encoder, OnesEncoder):
        data.edge_attr = _features(model.edge_encoder, 12)
    return LaplacianSpectrum(dtype=model.dtype)(data)


def _features(encoder: FeatureEncoder, rows: int) -> Tensor:
    features = encoder.example(rows)
    assert features is not None
    return features
