"""Node and edge features → vectors of width d."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.config import CategoricalSpec, EmbeddingSpec, EncoderSpec, LinearSpec, OnesSpec
from eigenformer.ragged import name_graph

# Up to this many kinds, it is cheaper to encode all of them than every row.
_FEW = 256


class FeatureEncoder(nn.Module, ABC):
    """Encodes the rows of a feature matrix, and finds rows that it cannot encode."""

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Encodes the features: ``[rows, *] → [rows, d]``."""

    def example(self, rows: int) -> Tensor | None:
        """Returns random features that the encoder accepts, or None if it needs no features.

        Only needed to measure the speed of a model on random graphs.
        """
        raise NotImplementedError(f"{type(self).__name__}: has no example of its features")

    def invalid(self, features: Tensor) -> tuple[Tensor, str] | None:
        """Returns the invalid rows of ``features`` and the reason, or None if all are valid."""
        return None

    def kinds(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        """Returns all possible distinct rows, and for each row the index of its kind.

        Returns None unless there are only a few. Encoding the kinds and then selecting from them
        gives the same result as encoding every row, and is cheaper.
        """
        return None

    def factors(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        """Returns the factors of a linear encoding: vectors ``[F, d]``, coefficients ``[rows, F]``.

        The encoding is the product of coefficients and vectors, plus :meth:`no_edge`. Returns None
        if the encoding is not linear or if factors save nothing.
        """
        return None

    def no_edge(self) -> Tensor | None:
        """Returns the vector of a pair of nodes without an edge, or None for zeros."""
        return None


class EmbeddingEncoder(FeatureEncoder):
    """Embeds types, such as atom and bond types, and applies a linear map.

    Args:
        channels: d, the width to encode to.
        num_types: Number of types.
        width: Width of the embedding.
        no_edge_type: The type that means "no edge", for an encoder of edges.
    """

    def __init__(
        self, channels: int, num_types: int, width: int, no_edge_type: int | None = None
    ) -> None:
        super().__init__()
        self.no_edge_type = no_edge_type
        self.embedding = nn.Embedding(num_types, width)
        self.linear = nn.Linear(width, channels)

    def forward(self, features: Tensor) -> Tensor:
        # Map the types, then look up the rows: there are fewer types than rows.
        return F.embedding(features.reshape(-1).long(), self.linear(self.embedding.weight))

    def example(self, rows: int) -> Tensor | None:
        # Type 0 often means "no edge".
        lowest = min(1, self.embedding.num_embeddings - 1)
        return torch.randint(lowest, self.embedding.num_embeddings, (rows,))

    def invalid(self, features: Tensor) -> tuple[Tensor, str] | None:
        return _invalid_types(features, [self.embedding.num_embeddings])

    def kinds(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        types = torch.arange(self.embedding.num_embeddings, device=features.device)
        return types, features.reshape(-1).long()

    def no_edge(self) -> Tensor | None:
        if self.no_edge_type is None:
            return None
        return self.linear(self.embedding.weight[self.no_edge_type])


class CategoricalEncoder(FeatureEncoder):
    """Sums one embedding per column, for OGB's atom and bond features.

    Every value is a real category, so the vector of "no edge" is zero.

    Args:
        channels: d, the width to encode to.
        sizes: Number of categories per column.
    """

    def __init__(self, channels: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.embedding = nn.Embedding(sum(sizes), channels)
        nn.init.xavier_uniform_(self.embedding.weight)
        # All columns share one table, in which the categories of each column follow one another.
        offsets = torch.tensor([0, *sizes]).cumsum(0)[:-1]
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor
        # The number of a combination of categories, whose last column counts fastest.
        strides = [math.prod(sizes[column + 1 :]) for column in range(len(sizes))]
        self.register_buffer("strides", torch.tensor(strides), persistent=False)
        self.strides: Tensor

    def forward(self, features: Tensor) -> Tensor:
        places = self._columns(features) + self.offsets
        return F.embedding_bag(places, self.embedding.weight, mode="sum")

    def kinds(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        if math.prod(self.sizes) > _FEW:
            return None
        ranges = [torch.arange(size, device=features.device) for size in self.sizes]
        kind = (self._columns(features) * self.strides).sum(1)
        return torch.cartesian_prod(*ranges).view(-1, len(ranges)), kind

    def _columns(self, features: Tensor) -> Tensor:
        return features.reshape(-1, len(self.sizes)).long()

    def example(self, rows: int) -> Tensor | None:
        return torch.stack([torch.randint(size, (rows,)) for size in self.sizes], 1)

    def invalid(self, features: Tensor) -> tuple[Tensor, str] | None:
        return _invalid_types(features, self.sizes)


class LinearEncoder(FeatureEncoder):
    """Applies a linear map to numbers: colours, positions, distances, one-hot types.

    Args:
        channels: d, the width to encode to.
        in_channels: Number of features.
        bias: Whether the map has a bias. The bias is then the vector of "no edge".
    """

    def __init__(self, channels: int, in_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, channels, bias=bias)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear(self._numbers(features))

    def example(self, rows: int) -> Tensor | None:
        return torch.rand(rows, self.linear.in_features)

    def factors(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.linear.in_features >= self.linear.out_features:
            return None
        return self.linear.weight.t(), self._numbers(features)

    def _numbers(self, features: Tensor) -> Tensor:
        return features.reshape(-1, self.linear.in_features).to(self.linear.weight.dtype)

    def invalid(self, features: Tensor) -> tuple[Tensor, str] | None:
        everywhere = torch.ones(len(features), dtype=torch.bool)
        if features.is_complex():
            return everywhere, "complex numbers, the encoder expects real ones"
        if _width(features) != self.linear.in_features:
            return everywhere, (
                f"{_width(features)} features, the encoder expects {self.linear.in_features}"
            )
        numbers = features.reshape(len(features), -1).to(self.linear.weight.dtype)
        bad = ~numbers.isfinite().all(1)
        return (bad, "a NaN or infinite value") if bad.any() else None

    def no_edge(self) -> Tensor | None:
        return self.linear.bias


class OnesEncoder(FeatureEncoder):
    """Encodes every edge as a vector of ones and ignores its features. Has no parameters.

    Args:
        channels: d, the width to encode to.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("ones", torch.ones(channels), persistent=False)
        self.ones: Tensor

    def forward(self, features: Tensor) -> Tensor:
        return self.ones.expand(features.size(0), -1)

    def example(self, rows: int) -> Tensor | None:
        return None

    def kinds(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        kind = torch.zeros(features.size(0), dtype=torch.long, device=features.device)
        return features.new_empty(1, 0), kind


def build_encoder(spec: EncoderSpec, channels: int) -> FeatureEncoder:
    """Builds an encoder from its specification, with new weights."""
    if isinstance(spec, EmbeddingSpec):
        return EmbeddingEncoder(channels, spec.num_types, spec.width, spec.no_edge_type)
    if isinstance(spec, CategoricalSpec):
        return CategoricalEncoder(channels, spec.sizes)
    if isinstance(spec, LinearSpec):
        return LinearEncoder(channels, spec.in_channels, spec.bias)
    if isinstance(spec, OnesSpec):
        return OnesEncoder(channels)
    raise TypeError(f"no encoder for the settings of {type(spec).__name__}")


def checked_features(
    batch: Data,
    attribute: str,
    encoder: FeatureEncoder,
    graph_of_row: Tensor,
    values: bool = True,
) -> Tensor:
    """Returns the values of an attribute.

    Raises an error that names the attribute and the graph if a value is missing or invalid.
    ``values=False`` checks no values, only that they are there.
    """
    features = batch.get(attribute)
    if isinstance(encoder, OnesEncoder) or not len(graph_of_row):
        return graph_of_row.new_empty(len(graph_of_row), 0)
    if features is None:
        raise ValueError(
            f"{name_graph(torch.ones_like(graph_of_row), graph_of_row)}: '{attribute}' is missing, "
            f"but the model encodes it with {type(encoder).__name__}"
        )
    if len(features) != len(graph_of_row):
        raise ValueError(
            f"{attribute}: {len(features)} rows in the batch, expected {len(graph_of_row)}, one "
            f"for every {'node' if attribute == 'x' else 'edge'}"
        )
    invalid = encoder.invalid(features) if values else None
    if invalid is not None:
        rows, reason = invalid
        raise ValueError(f"{name_graph(rows, graph_of_row)}: {attribute}: {reason}")
    return features


def _width(features: Tensor) -> int:
    return 1 if features.dim() == 1 else features[0].numel() if len(features) else features.size(-1)


def _invalid_types(features: Tensor, sizes: Sequence[int]) -> tuple[Tensor, str] | None:
    everywhere = torch.ones(len(features), dtype=torch.bool)
    if features.is_floating_point() or features.is_complex() or features.dtype == torch.bool:
        return everywhere, f"{features.dtype}, the encoder expects integer types"
    if _width(features) != len(sizes):
        return everywhere, f"{_width(features)} features, the encoder expects {len(sizes)}"
    columns = features.reshape(len(features), len(sizes)).long()
    unknown = (columns < 0) | (columns >= torch.tensor(sizes, device=features.device))
    if unknown.any():
        row, column = unknown.nonzero()[0].tolist()
        return unknown.any(1), (
            f"type {int(columns[row, column])} in column {column}, the encoder knows 0 to "
            f"{sizes[column] - 1}"
        )
    return None
