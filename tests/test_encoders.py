from __future__ import annotations

import torch

from eigenformer.encoders import CategoricalEncoder, EmbeddingEncoder, LinearEncoder, OnesEncoder


def test_embedding():
    encoder = EmbeddingEncoder(6, num_types=4, width=3, no_edge_type=0)
    types = torch.tensor([[0], [3], [1]])
    expected = encoder.linear(encoder.embedding.weight[types.view(-1)])
    assert torch.equal(encoder(types), expected)
    assert torch.equal(encoder(types.view(-1).to(torch.uint8)), expected)
    assert torch.allclose(encoder.no_edge(), encoder(torch.tensor([0]))[0])
    assert EmbeddingEncoder(6, 4, 3).no_edge() is None


def test_categorical_adds_one_embedding_per_column():
    encoder = CategoricalEncoder(5, [3, 2])
    out = encoder(torch.tensor([[2, 1], [0, 0]]))
    table = encoder.embedding.weight
    assert torch.allclose(out, torch.stack([table[2] + table[4], table[0] + table[3]]))
    assert encoder.no_edge() is None  # 0 is a real category


def test_rows_of_few_categories_are_selected_from_all_kinds():
    sizes = (5, 6, 2)
    encoder = CategoricalEncoder(7, sizes)
    features = encoder.example(40)
    rows, kind = encoder.kinds(features)
    assert len(rows) == 60
    assert torch.equal(rows[kind], features)
    assert torch.equal(encoder(rows)[kind], encoder(features))
    assert encoder.kinds(features[:0])[1].shape == (0,)
    one = CategoricalEncoder(7, (4,))
    rows, kind = one.kinds(torch.tensor([3, 0]))
    assert torch.equal(rows[kind], torch.tensor([[3], [0]]))
    assert CategoricalEncoder(7, (119, 5)).kinds(torch.zeros(3, 2)) is None


def test_linear():
    encoder = LinearEncoder(6, 3)
    x = torch.tensor([[1, 2, 3], [0, 0, 0]])
    assert torch.equal(encoder(x), encoder.linear(x.float()))
    assert torch.equal(encoder.no_edge(), encoder(x)[1])
    assert LinearEncoder(6, 3, bias=False).no_edge() is None
    one = LinearEncoder(6, 1)
    assert torch.equal(one(torch.ones(4)), one(torch.ones(4, 1)))


def test_ones_needs_no_features_and_no_parameters():
    encoder = OnesEncoder(3)
    assert torch.equal(encoder(torch.empty(2, 0)), torch.ones(2, 3))
    assert not list(encoder.parameters())
    assert not encoder.state_dict()


def problem(encoder, features):
    rows, reason = encoder.invalid(features)
    return rows.nonzero().view(-1).tolist(), reason


def test_problems_are_found():
    embedding = EmbeddingEncoder(6, 4, 3)
    assert embedding.invalid(torch.tensor([0, 3])) is None
    rows, reason = problem(embedding, torch.tensor([0, 4, 1, -1]))
    assert (rows, reason) == ([1, 3], "type 4 in column 0, the encoder knows 0 to 3")
    assert "integer" in problem(embedding, torch.tensor([0.0]))[1]
    assert "2 features, the encoder expects 1" in problem(embedding, torch.zeros(3, 2).long())[1]

    categorical = CategoricalEncoder(6, [2, 5])
    assert categorical.invalid(torch.tensor([[1, 4]])) is None
    assert problem(categorical, torch.tensor([[1, 4], [2, 0]]))[0] == [1]

    linear = LinearEncoder(6, 2)
    assert linear.invalid(torch.zeros(3, 2)) is None
    assert problem(linear, torch.tensor([[0.0, 1.0], [torch.nan, 0.0]]))[0] == [1]
    assert problem(linear, torch.tensor([[0.0, torch.inf]])) == ([0], "a NaN or infinite value")
    huge = torch.tensor([[0.0, 1e230]], dtype=torch.float64)  # infinite in the model's float32
    assert problem(linear, huge)[0] == [0]
    assert problem(embedding, torch.tensor([9], dtype=torch.uint16))[0] == [0]
    assert "3 features, the encoder expects 2" in problem(linear, torch.zeros(1, 3))[1]
    assert "complex" in problem(linear, torch.zeros(1, 2, dtype=torch.complex64))[1]


def test_examples_fit_their_encoder():
    for encoder in (EmbeddingEncoder(6, 4, 3), CategoricalEncoder(5, [3, 2]), LinearEncoder(6, 3)):
        features = encoder.example(50)
        assert features is not None
        assert encoder.invalid(features) is None
        assert encoder(features).shape[0] == 50
    assert OnesEncoder(3).example(50) is None
    assert set(EmbeddingEncoder(6, 4, 3).example(200).tolist()) == {1, 2, 3}  # 0 means "no edge"
    assert EmbeddingEncoder(6, 1, 3).example(2).tolist() == [0, 0]
