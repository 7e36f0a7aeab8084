from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.config import CategoricalSpec, InputFormat, LinearSpec
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.training.features import encoders, unseen_atoms, unused_fields


def _archive(x: list[list[float]], **meta: object) -> GraphArchive:
    edges = torch.tensor([[0, 1], [1, 0]])
    return GraphArchive.from_data_list([Data(x=torch.tensor(x), edge_index=edges)], meta=meta)


def test_whole_numbers_are_categories_and_all_others_are_quantities():
    assert encoders(_archive([[2, 0], [0, 5]])) == (CategoricalSpec((3, 6)), None)
    assert encoders(_archive([[2, 0], [0, -1]])) == (LinearSpec(2), None)
    assert encoders(_archive([[2.0, 0.0], [0.0, 1e9]])) == (LinearSpec(2), None)


def test_a_whole_number_too_large_for_a_category_is_an_error_that_says_what_to_do():
    large = [[2, 0], [0, 10**9]]
    with pytest.raises(DataError, match=r"column 1 of x: .* up to 1000000000 .*5\.0 instead of 5"):
        encoders(_archive(large))
    with pytest.raises(DataError, match="node features, column 'mass': "):
        encoders(_archive(large, columns={"x": ["charge", "mass"]}))


def test_atoms_are_unseen_by_a_model_of_zinc_only_and_need_not_be_there():
    atoms = torch.tensor([[3], [21], [0]])
    assert unseen_atoms(InputFormat(unknown_type=21), atoms) == (1,)
    assert unseen_atoms(InputFormat(featurizer="zinc"), atoms) == ()
    assert unseen_atoms(InputFormat(unknown_type=21), None) == ()


def test_attributes_that_no_model_sees_are_named():
    graphs = [Data(x=torch.ones(3, 1), pos=torch.ones(3, 2), y=torch.ones(1)) for _ in range(2)]
    told = unused_fields(GraphArchive.from_data_list(graphs))
    assert told.startswith("node features are read from 'x' only, not from 'pos'")
    for graph in graphs:
        del graph.pos
    assert unused_fields(GraphArchive.from_data_list(graphs)) == ""
    for graph in graphs:
        graph.row_weight, graph.u = torch.ones(1), torch.ones(1, 5)
    told = unused_fields(GraphArchive.from_data_list(graphs))
    assert told == "attributes of whole graphs are not used: 'u'"
