"""The modules that encode random walks and eigenvectors."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.config import LaplacianSpec, RandomWalkSpec
from eigenformer.encodings import LaplacianEncoder, build_encoding

NODE_GRAPH = torch.tensor([0, 0, 0, 1, 1])


def batch() -> Data:
    values = torch.tensor([[0.5, 1.0, 1.5], [2.0, -1.0, -1.0]])
    entries = torch.randn(5, 3)
    entries[3:, 1:] = 0
    return Data(rwse=torch.rand(5, 4), lappe=entries, lappe_values=values, num_nodes=5)


def test_shapes() -> None:
    for spec in (RandomWalkSpec(4, 6), LaplacianSpec(3, 6)):
        assert build_encoding(spec)(batch(), NODE_GRAPH).shape == (5, 6)


def test_missing_eigenvectors_count_for_nothing() -> None:
    encoder = LaplacianEncoder(6, 3).eval()
    given = batch()
    alone = LaplacianEncoder(6, 1).eval()
    alone.load_state_dict(encoder.state_dict())
    short = Data(lappe=given.lappe[3:, :1], lappe_values=given.lappe_values[1:, :1])
    expected = alone(short, torch.tensor([0, 0]))
    torch.testing.assert_close(encoder(given, NODE_GRAPH)[3:], expected)


def test_signs_are_random_in_training_and_repeat_with_the_seed() -> None:
    encoder, given = LaplacianEncoder(6, 3), batch()
    results = []
    for seed in (1, 1, 2, 3):
        torch.manual_seed(seed)
        results.append(encoder(given, NODE_GRAPH))
    assert torch.equal(results[0], results[1])
    assert not all(torch.equal(results[0], other) for other in results[2:])
    # Each is that of some choice of signs, one for each eigenvector of each graph.
    encoder.eval()
    choices = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)
    flipped = [
        encoder(Data(lappe=given.lappe * signs, lappe_values=given.lappe_values), NODE_GRAPH)
        for signs in choices
    ]
    for nodes in (slice(0, 3), slice(3, 5)):
        assert any(torch.allclose(results[2][nodes], other[nodes]) for other in flipped)
    assert torch.equal(encoder(given, NODE_GRAPH), encoder(given, NODE_GRAPH))


def test_errors_name_what_is_missing() -> None:
    with pytest.raises(ValueError, match="the graphs have no 'rwse', which the model encodes"):
        build_encoding(RandomWalkSpec())(Data(num_nodes=5), NODE_GRAPH)
    with pytest.raises(ValueError, match=r"rwse: shape \(5, 4\), expected \(5, 20\)"):
        build_encoding(RandomWalkSpec())(batch(), NODE_GRAPH)
