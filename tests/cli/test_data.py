from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from eigenformer.cli import main
from tests.data.samples import random_archive, random_graphs


def run(*arguments):
    return main(["data", *map(str, arguments)])


def test_prepare_list_info(tmp_path, capsys):
    assert run("prepare", "pattern", "--size", 10, "--cache-dir", tmp_path) == 0
    out = capsys.readouterr().out
    assert "graphs      10 (train, val, test: 8, 1, 1)" in out
    assert "task        node binary" in out
    assert run("list", "--cache-dir", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert lines[1].split()[0] == "zinc"
    assert "not prepared" in lines[1]
    assert "pattern-n10" in lines[-1]
    assert str(tmp_path / "pattern-n10") in lines[-1]
    assert run("info", "pattern-n10", "--cache-dir", tmp_path) == 0
    assert "checksums   all" in capsys.readouterr().out
    assert run("info", tmp_path / "pattern-n10") == 0


def test_info_finds_damage(tmp_path, capsys):
    run("prepare", "pattern", "--size", 10, "--cache-dir", tmp_path, "--no-spectra")
    file = tmp_path / "pattern-n10" / "field.y.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert run("info", "pattern-n10", "--cache-dir", tmp_path) == 2
    assert "field.y.npy: its checksum does not match" in capsys.readouterr().err


def test_info_compares_the_checksums_of_raw_files(tmp_path, capsys):
    table, cache = tmp_path / "mine.csv", ("--cache-dir", tmp_path / "cache")
    table.write_text("smiles\nCCO\nCCC\n")
    assert run("prepare", table, *cache, "--no-spectra") == 0
    status = table.stat()
    assert run("info", "mine", *cache) == 0
    assert "raw files   unchanged" in capsys.readouterr().out
    table.write_text("smiles\nCCO\nCCN\n")
    os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run("info", "mine", *cache) == 0
    changed = f"raw files   changed since the archive was built ({table})"
    assert changed in capsys.readouterr().out


def test_info_shows_and_checks_all_spectra(tmp_path, capsys):
    cache = ("--cache-dir", tmp_path)
    for k in ((), ("--num-frequencies", 4)):
        assert run("prepare", "pattern", "--size", 10, *cache, *k) == 0
    capsys.readouterr()
    assert run("info", "pattern-n10", *cache) == 0
    out = capsys.readouterr().out
    assert "spectra     all frequencies, " in out
    assert "spectra     the 4 lowest frequencies, " in out
    file = max((tmp_path / "spectra").glob("*/eigenvectors.npy"), key=lambda f: -f.stat().st_size)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert run("info", "pattern-n10", *cache) == 2
    assert f"{file}: its checksum does not match" in capsys.readouterr().err


def test_the_benchmark_is_compared_with_the_paper(raw_dir, tmp_path, capsys):
    arguments = ("--raw-dir", raw_dir, "--cache-dir", tmp_path, "--no-spectra")
    assert run("prepare", "zinc", *arguments) == 0
    out = capsys.readouterr().out
    assert (
        "paper       12000 graphs, on average 23.2 nodes and 24.9 edges, each counted once" in out
    )
    assert "            agrees" in out


def test_own_molecules(tmp_path, capsys):
    pytest.importorskip("rdkit")
    table = tmp_path / "mine.csv"
    table.write_text("mol,logP,id\n" + "".join(f"{'C' * n},{n}.5,m{n}\n" for n in range(1, 21)))
    arguments = ("--smiles", "mol", "--target", "logP", "--split-by", "random", "--seed", 3)
    cache = ("--cache-dir", tmp_path / "cache")
    assert run("prepare", table, *arguments, *cache) == 0
    assert "train, val, test: 16, 2, 2" in capsys.readouterr().out
    with table.open("a") as stream:
        stream.write("xyz,1,bad\n")
    assert run("prepare", table, *arguments, *cache) == 0
    assert f"{table}, line 22: 'xyz': invalid SMILES" in capsys.readouterr().err
    assert run("info", "mine", *cache) == 0
    capsys.readouterr()
    assert run("prepare", table, *arguments, *cache) == 0
    assert "building" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prepare", "zink"), "benchmark 'zink': unknown; the nearest is 'zinc'"),
        (("prepare", "no/such.csv"), "no such file"),
        (("prepare", "zinc", "--target", "y"), "targets: for your own graphs"),
        (("prepare", "zinc", "--size", "5"), "apply to pattern and cluster only"),
        (("info", "zinc"), "not prepared yet"),
        (("prepare", "pattern", "--size", "9", "--seed", "-1"), "seed: must not be negative"),
        (
            ("prepare", "pattern", "--size", "9", "--num-frequencies", "0"),
            "num_frequencies: must be at least 1",
        ),
        (("prepare", "pattern", "--size", "9", "--workers", "0"), "workers: must be at least 1"),
    ],
)
def test_mistakes(tmp_path, capsys, arguments, message):
    assert run(*arguments, "--cache-dir", tmp_path) == 2
    assert message in capsys.readouterr().err


def test_unknown_options_of_own_graphs(tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text("smiles\nC\n")
    assert run("prepare", table, "--split-by", "scafold", "--cache-dir", tmp_path) == 2
    assert "the nearest is 'scaffold'" in capsys.readouterr().err


def test_listing_and_help_do_not_load_torch(tmp_path):
    code = (
        "import sys; from eigenformer.cli import main; "
        f"main(['data', 'list', '--cache-dir', {str(tmp_path)!r}]); "
        "import eigenformer.data, eigenformer.config; "
        "assert not {'torch', 'torch_geometric', 'rdkit'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


TABLE = "smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 11))


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (
            "table",
            ("--no-spectra", "--num-frequencies", "3"),
            "--num-frequencies, --workers: cannot be combined",
        ),
        ("table", ("--raw-dir", "."), "--raw-dir: for benchmarks"),
        ("table", ("--undirected",), "undirected: does not apply to a table of molecules"),
        (
            "table",
            ("--fractions", "nan", "0.5", "0.5", "--split-by", "random"),
            "numbers that add up to 1 (train, val, test), got",
        ),
        (
            "table",
            ("--fractions", "-1", "1", "1", "--split-by", "random"),
            "numbers that add up to 1 (train, val, test), got",
        ),
        (
            "table",
            ("--fractions", "0.6", "0.2", "0.2"),
            "fractions, seed: apply to a split, but none",
        ),
        ("table", ("--seed", "3"), "fractions, seed: apply to a split, but none"),
        ("table", ("--seed", "-1", "--split-by", "random"), "seed: must not be negative"),
        ("table", ("--task", "regression"), "task: 'regression', but no targets are named"),
        ("table", ("--target", "y", "y"), "targets: 'y' appears twice"),
        ("table", ("--task", "none", "--target", "y"), "task: 'none': unknown"),
        ("graphs", ("--target", "y"), "targets: does not apply to PyG graphs"),
        ("graphs", ("--featurizer", "zinc"), "featurizer: does not apply to PyG graphs"),
        ("graphs", ("--split-column", "y"), "split_column: does not apply to PyG graphs"),
        (
            "archive",
            ("--split-by", "random"),
            "split_by: does not apply to an archive, which is used",
        ),
        ("archive", ("--target", "y"), "targets: does not apply to an archive"),
        ("archive", ("--name", "other"), "name: does not apply to an archive"),
    ],
)
def test_no_option_is_ignored(tmp_path, capsys, form, options, message):
    pytest.importorskip("rdkit")
    if form == "table":
        path = tmp_path / "mine.csv"
        path.write_text(TABLE)
    elif form == "graphs":
        path = tmp_path / "mine"
        path.mkdir()
        torch.save(random_graphs(0, 3), path / "a.pt")
    else:
        path = random_archive().save(tmp_path / "mine").path
    assert run("prepare", path, *options, "--cache-dir", tmp_path / "cache") == 2
    assert message in capsys.readouterr().err


def test_a_cache_that_is_a_file(tmp_path, capsys):
    (tmp_path / "cache").write_text("")
    assert run("list", "--cache-dir", tmp_path / "cache") == 2
    assert "the cache folder is a file" in capsys.readouterr().err


def test_without_a_split_there_is_a_hint(tmp_path, capsys):
    pytest.importorskip("rdkit")
    (tmp_path / "mine.csv").write_text(TABLE)
    arguments = ("prepare", tmp_path / "mine.csv", "--target", "y", "--cache-dir", tmp_path / "c")
    assert run(*arguments) == 0
    out = capsys.readouterr().out
    assert "graphs      10 (not split)" in out
    assert "--split-by random creates one" in out
    assert run(*arguments, "--split-by", "random") == 0
    assert "no split" not in capsys.readouterr().out
