from __future__ import annotations

import numpy as np
import pytest

from eigenformer.data import DataError, SplitOptions, read_own
from eigenformer.data.images import Slic, read_image_folder, superpixels_of

io = pytest.importorskip("skimage.io")


def picture(seed, shape=(32, 32, 3)):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    for label, seeds in (("cat", (0, 1)), ("dog", (2,))):
        (tmp_path / label).mkdir()
        for seed in seeds:
            io.imsave(tmp_path / label / f"{seed}.png", picture(seed), check_contrast=False)
    return tmp_path


def test_a_folder_of_pictures(folder):
    archive = read_own(folder, split=SplitOptions("random", (0.4, 0.3, 0.3))).archive
    assert list(archive.names) == ["cat/0.png", "cat/1.png", "dog/2.png"]
    assert [graph.y.item() for graph in archive] == [0, 0, 1]
    assert archive.target.names == ("cat", "dog")
    assert archive[0].x.shape[1] == 5
    assert archive.statistics.max_nodes <= 150
    assert (archive[0].edge_index[0].bincount() == 8).all()
    assert archive.statistics.splits == (1, 1, 1)


@pytest.mark.parametrize(("slic", "shape"), [(Slic(), (32, 32, 3)), (Slic(95, 75, 0.25), (28, 28))])
def test_superpixels_hold_the_picture(slic, shape):
    image = picture(1, shape)
    pixels = superpixels_of(image, slic)
    assert 1 < pixels.sizes[0] <= slic.most
    assert pixels.colour.shape[1] == (1 if len(shape) == 2 else 3)
    assert 0 <= pixels.colour.min() <= pixels.colour.max() <= 1
    assert 0 <= pixels.position.min() <= pixels.position.max() < 1


def test_colour_and_place_are_means():
    image = np.zeros((32, 32), np.uint8)
    image[:, 16:] = 51
    pixels = superpixels_of(image, Slic(start=16, most=16, compactness=0.01))
    right = pixels.position[:, 1] > 0.5
    assert right.any()
    assert not right.all()
    np.testing.assert_allclose(pixels.colour[:, 0], np.where(right, 0.2, 0))


def test_pictures_without_classes(tmp_path):
    io.imsave(tmp_path / "a.png", picture(0, (16, 16)), check_contrast=False)
    archive = read_image_folder(tmp_path)
    assert "y" not in archive.fields
    assert archive[0].x.shape[1] == 3


def test_transparency_is_dropped(tmp_path):
    io.imsave(tmp_path / "a.png", picture(0, (16, 16, 4)), check_contrast=False)
    assert read_image_folder(tmp_path)[0].x.shape[1] == 5


def test_bad_pictures_are_named(folder):
    (folder / "cat" / "x.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"x\.png: not a picture \([^\n]*\)$"):
        read_image_folder(folder)
    io.imsave(folder / "cat" / "x.png", picture(0, (9, 9)), check_contrast=False)
    with pytest.raises(DataError, match=r"x\.png: grey and coloured"):
        read_image_folder(folder)
