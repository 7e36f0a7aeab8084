from __future__ import annotations

import subprocess
import sys

import pytest

from eigenformer.cli import main


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
    assert "field.y.npy: its checksum does not fit" in capsys.readouterr().err


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
    arguments = ("--smiles-column", "mol", "--targets", "logP", "--split", "random", "--seed", 3)
    cache = ("--cache-dir", tmp_path / "cache")
    assert run("prepare", table, *arguments, *cache) == 0
    assert "train, val, test: 16, 2, 2" in capsys.readouterr().out
    with table.open("a") as stream:
        stream.write("xyz,1,bad\n")
    assert run("prepare", table, *arguments, *cache) == 0
    out = capsys.readouterr().out
    assert f"{table}, line 22: 'xyz': not a SMILES" in out
    assert run("info", "mine", *cache) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prepare", "zink"), "benchmark 'zink': unknown; the nearest is 'zinc'"),
        (("prepare", "no/such.csv"), "no such file"),
        (("prepare", "zinc", "--targets", "y"), "targets: for your own graphs"),
        (("prepare", "zinc", "--size", "5"), "for pattern and cluster only"),
        (("info", "zinc"), "not prepared yet"),
    ],
)
def test_mistakes(tmp_path, capsys, arguments, message):
    assert run(*arguments, "--cache-dir", tmp_path) == 2
    assert message in capsys.readouterr().err


def test_unknown_options_of_own_graphs(tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text("smiles\nC\n")
    assert run("prepare", table, "--split", "scafold", "--cache-dir", tmp_path) == 2
    assert "the nearest is 'scaffold'" in capsys.readouterr().err


def test_listing_and_help_do_not_load_torch(tmp_path):
    code = (
        "import sys; from eigenformer.cli import main; "
        f"main(['data', 'list', '--cache-dir', {str(tmp_path)!r}]); "
        "import eigenformer.data, eigenformer.config; "
        "assert not {'torch', 'torch_geometric', 'rdkit'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
