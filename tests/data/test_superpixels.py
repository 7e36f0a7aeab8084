from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
import torch

from eigenformer.data import BENCHMARKS, DataError, superpixels
from eigenformer.data.superpixels import Superpixels, nearest_nodes, neighbour_graphs
from eigenformer.data.workspace import Workspace
from eigenformer.limits import DEFAULT_LIMITS
from eigenformer.reporting import Reporter


def literal(position):
    """The rule of the data, node by node."""
    n = len(position)
    distance = np.sqrt(((position[:, None] - position) ** 2).sum(-1))
    sigma = [np.sort(np.delete(distance[i], i))[:8].mean() for i in range(n)]
    affinity = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                a = np.exp(-((distance[i, j] / sigma[i]) ** 2))
                affinity[i, j] = (a + np.exp(-((distance[i, j] / sigma[j]) ** 2))) / 2
    edges = []
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: (-affinity[i, j], j))
        edges += [(i, j, affinity[i, j]) for j in sorted(others[:8])]
    return edges


@pytest.mark.parametrize("n", [2, 3, 8, 9, 10, 40])
def test_the_rule(n):
    position = np.random.default_rng(n).random((3, n, 2))
    index, weight = nearest_nodes(position)
    assert index.shape == weight.shape == (3, n, min(8, n - 1))
    for picture in range(3):
        expected = literal(position[picture])
        found = [
            (i, int(j), w)
            for i in range(n)
            for j, w in zip(index[picture, i], weight[picture, i], strict=True)
        ]
        assert [edge[:2] for edge in found] == [edge[:2] for edge in expected]
        np.testing.assert_allclose([e[2] for e in found], [e[2] for e in expected], atol=1e-12)


def test_ties_go_to_the_lowest_index():
    # Twelve nodes, all equally far from node 0 in their midst.
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 3, dtype=float)
    index, weight = nearest_nodes(np.concatenate([[[0.0, 0.0]], corners])[None])
    assert index[0, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert np.ptp(weight[0, 0]) == 0


def test_a_picture_of_one_colour_is_one_node():
    position = np.random.default_rng(0).random((4, 2))
    pixels = Superpixels(np.array([1, 3]), np.zeros((4, 1)), position)
    edge_index, weights, offsets = neighbour_graphs(pixels, Reporter())
    assert offsets.tolist() == [0, 0, 6]
    assert edge_index.tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]
    assert len(weights) == 6


def test_nodes_on_top_of_each_other_are_finite():
    _, weight = nearest_nodes(np.zeros((1, 12, 2)))
    assert (weight == 1).all()


@pytest.mark.parametrize(("name", "channels"), [("mnist", 1), ("cifar10", 3)])
def test_the_real_validation_pictures(raw_dir, name, channels):
    side = {"mnist": 28, "cifar10": 32}[name]
    pixels, labels = superpixels._read_sums(raw_dir / name / "val.npz", side, DEFAULT_LIMITS)
    few = int(pixels.sizes[:300].sum())
    part = Superpixels(pixels.sizes[:300], pixels.colour[:few], pixels.position[:few])
    archive = superpixels.superpixel_archive(part, labels[:300], "abcdefghij", None, Reporter())
    graph = archive[7]
    assert graph.x.shape[1] == channels + 2
    assert graph.edge_attr.shape == (graph.edge_index.shape[1], 1)
    assert graph.x.dtype == graph.edge_attr.dtype == torch.float32
    assert 0 <= graph.x.min() <= graph.x.max() <= 1
    assert (graph.edge_index[0].bincount() == 8).all()
    start = int(archive.node_offsets[7])
    edges = literal(part.position[start : start + graph.num_nodes])
    assert graph.edge_index.t().tolist() == [list(edge[:2]) for edge in edges]


@pytest.mark.parametrize(("name", "mean"), [("mnist", 70.57), ("cifar10", 117.63)])
def test_the_mean_size_of_all_pictures(raw_dir, name, mean):
    sizes = [np.load(raw_dir / name / f"{split}.npz")["n_nodes"] for split in SPLITS]
    total = np.concatenate(sizes).astype(int)
    assert round(total.mean(), 2) == mean
    assert len(total) == BENCHMARKS[name].graphs


SPLITS = ("train", "val", "test")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_whole_set_agrees_with_the_paper(raw_dir, tmp_path, name):
    files = Workspace(raw_dir, tmp_path).locate(name, superpixels.layouts(name))
    archive = superpixels.build(name, files, Reporter())
    assert BENCHMARKS[name].differences(archive.statistics) == []
    assert (
        archive.statistics.splits
        == {
            "mnist": (55_000, 5_000, 10_000),
            "cifar10": (45_000, 5_000, 10_000),
        }[name]
    )


def test_sums_that_do_not_add_up(tmp_path):
    file = tmp_path / "x.npz"
    ones = np.ones(5, np.uint8)
    np.savez(
        file,
        count=ones,
        sum_row=ones,
        sum_col=ones,
        sum_px=ones[:, None],
        n_nodes=np.array([4]),
        label=np.array([0]),
    )
    with pytest.raises(DataError, match=r"x\.npz: n_nodes does not add up"):
        superpixels._read_sums(file, 28, DEFAULT_LIMITS)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_official_files(tmp_path, name):
    channels = {"mnist": 1, "cifar10": 3}[name]

    def graph(label):
        return {
            "x": torch.full((3, channels), label / 10),
            "pos": torch.tensor([[0.0, 0.1], [0.2, 0.3], [0.4, 0.5]]),
            "edge_index": torch.tensor([[0, 1], [1, 2]]),
            "edge_attr": torch.tensor([0.5, 0.25]),
            "y": torch.tensor([label]),
        }

    buffer = io.BytesIO()
    torch.save([[graph(1), graph(2)], [graph(3)], [graph(4)]], buffer)
    file = tmp_path / f"{name.upper()}_v2.zip"
    with zipfile.ZipFile(file, "w") as archive_file:
        archive_file.writestr(f"{name.upper()}_v2.pt", buffer.getvalue())
    archive = superpixels.build(name, [file], Reporter())
    assert archive.statistics.splits == (2, 1, 1)
    assert archive[2].y.tolist() == [3]
    row = torch.tensor([0.3] * channels + [0.2, 0.3])
    assert torch.allclose(archive[2].x[1], row)
    assert archive[2].edge_attr.tolist() == [[0.5], [0.25]]
