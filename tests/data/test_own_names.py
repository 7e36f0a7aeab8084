"""What the user's own data are called in the cache, and what that never overwrites."""

from __future__ import annotations

import pytest

from eigenformer.data import DataError, GraphArchive, prepare_own
from eigenformer.data.splits import scaffold_split
from eigenformer.data.workspace import Workspace
from tests.data.samples import equal_archives

pytest.importorskip("rdkit")


@pytest.fixture
def table(tmp_path):
    def write(name: str, text: str = "smiles,y\nCCO,1.5\nCC,2.5\n"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    return write


def prepared(file, cache, **arguments):
    return prepare_own(file, workspace=Workspace(None, cache), with_spectra=False, **arguments)


@pytest.mark.parametrize(
    "name", ["raw.csv", "spectra.csv", "zinc.csv", "pattern-n300.csv", "cluster-n5-seed2.tsv"]
)
def test_names_of_the_cache_itself_are_refused(table, tmp_path, name):
    cache = tmp_path / "cache"
    (cache / "raw").mkdir(parents=True)
    (cache / "raw" / "download").write_text("precious")
    with pytest.raises(DataError, match="choose another"):
        prepared(table(name), cache)
    assert (cache / "raw" / "download").read_text() == "precious"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../victim", "/victim"])
def test_names_outside_the_cache_are_refused(table, tmp_path, name):
    with pytest.raises(DataError, match="cannot be a name in the cache"):
        prepared(table("mine.csv"), tmp_path / "cache", name=name)


def test_only_the_suffix_of_a_table_is_left_out(table, tmp_path):
    for name, expected in (("v1.0.csv", "v1.0"), ("v1.1.csv", "v1.1"), ("UP.CSV", "UP")):
        assert prepared(table(name), tmp_path / "cache").name == expected


def test_two_files_of_one_name_do_not_replace_each_other(table, tmp_path):
    cache = tmp_path / "cache"
    prepared(table("a/mine.csv"), cache)
    with pytest.raises(DataError, match="'mine' is taken by .*a.mine.csv"):
        prepared(table("b/mine.csv"), cache)
    assert prepared(table("b/mine.csv"), cache, name="other").name == "other"
    (tmp_path / "a" / "mine.csv").unlink()  # moved away: the name is free again
    assert prepared(table("b/mine.csv"), cache).name == "mine"


def test_an_archive_never_replaces_anything_else(table, tmp_path):
    archive = prepared(table("mine.csv"), tmp_path / "cache").archive
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    for place in (folder, folder / "thesis.txt"):
        with pytest.raises(DataError, match="not overwritten"):
            archive.save(place)
    assert (folder / "thesis.txt").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    archive.save(tmp_path / "empty")
    assert equal_archives(GraphArchive.open(archive.save(tmp_path / "empty").path), archive)


def test_an_element_that_is_none_is_a_rejected_row(table, tmp_path):
    archive = prepared(table("odd.csv", "smiles,y\nCC,1\n[#119],2\n"), tmp_path / "c").archive
    assert len(archive) == 1
    assert archive.meta["rejected"][0]["line"] == 3


def test_a_damaged_raw_file_is_named(tmp_path):
    from eigenformer.data import prepare

    (tmp_path / "raw" / "zinc").mkdir(parents=True)
    (tmp_path / "raw" / "zinc" / "zinc12k.npz").write_bytes(b"half of it")
    with pytest.raises(DataError, match="zinc12k.npz: damaged .*replace it with an intact copy"):
        prepare("zinc", Workspace(tmp_path / "raw", tmp_path / "c"), with_spectra=False)


def test_the_most_frequent_scaffold_is_in_train():
    split = scaffold_split(["c1ccccc1" + "C" * i for i in range(20)])
    assert (split == 0).all()
