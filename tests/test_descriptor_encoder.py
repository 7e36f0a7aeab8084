from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.descriptor_encoder import DescriptorEncoder

NAN, INF = float("nan"), float("inf")


def _standardised(encoder: DescriptorEncoder, rows: list[list[float]]) -> list[list[float]]:
    """What the linear map sees: it is replaced by the identity and its negative."""
    size = len(encoder.mean)
    encoder.linear = torch.nn.Linear(size, 2 * size, bias=False)
    torch.nn.init.zeros_(encoder.linear.weight)
    encoder.linear.weight.data[:size] = torch.eye(size)
    encoder.linear.weight.data[size:] = -torch.eye(size)
    found = encoder.eval()(Data(descriptors=torch.tensor(rows)), len(rows))
    return (found[:, :size] - found[:, size:]).tolist()


def test_standardised_by_the_known_training_values():
    encoder = DescriptorEncoder(4, 8, 0.0)
    # A plain descriptor, a constant one, one with gaps, one that is never known.
    encoder.fit(
        torch.tensor([[1.0, 7.1, NAN, NAN], [3.0, 7.1, 2.0, NAN], [5.0, 7.1, 6.0, INF]]),
    )
    assert encoder.mean.tolist() == pytest.approx([3, 7.1, 4, 0])
    deviation = (8 / 3) ** 0.5
    found = _standardised(encoder, [[3 + deviation, 9.0, 6.0, 5.0], [NAN, NAN, NAN, NAN]])
    assert found[0] == pytest.approx([1, 0, 1, 0])
    assert found[1] == [0, 0, 0, 0]  # the mean
    assert _standardised(encoder, [[1e30, 0.0, -INF, 0.0]])[0] == [5, 0, -5, 0]


def test_descriptors_that_do_not_fit():
    encoder = DescriptorEncoder(3, 8, 0.0)
    with pytest.raises(ValueError, match="no descriptors, but the model needs 3 of each"):
        encoder(Data(), 2)
    with pytest.raises(ValueError, match=r"shape \(2, 4\), expected \(2, 3\)"):
        encoder(Data(descriptors=torch.zeros(2, 4)), 2)
