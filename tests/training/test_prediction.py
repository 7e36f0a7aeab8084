"""Predictions for graphs that are no molecules, and by a model of ZINC."""

from __future__ import annotations

import gzip
import os
import platform
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from eigenformer import Eigenformer
from eigenformer.cli import main
from eigenformer.config import BenchmarkData, InputFormat, load_preset
from eigenformer.data.archive import GraphArchive
from eigenformer.model_folder import ModelCard, save_model
from eigenformer.targets import NumberTarget
from tests.training.samples import SMALL, read_rows


def _ring(size: int, kinds: int, target: float | None = None) -> Data:
    nodes = torch.arange(size)
    edges = torch.stack([nodes, (nodes + 1) % size])
    data = Data(x=(nodes % kinds)[:, None], edge_index=torch.cat([edges, edges.flip(0)], 1))
    if target is not None:
        data.y = torch.tensor([target])
    return data


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """A model of rings, trained on kinds of nodes below three."""
    folder = tmp_path_factory.mktemp("rings")
    (folder / "graphs").mkdir()
    graphs = [_ring(3 + i % 6, 3, 0.5 + i) for i in range(30)]
    torch.save(graphs, folder / "graphs" / "all.pt")
    assert main(["train", str(folder / "graphs"), "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


def test_a_graph_that_the_model_cannot_take_keeps_its_place(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(5, 3), _ring(6, 5), _ring(4, 2)], new / "g.pt")
    out = tmp_path / "p.csv"
    assert main(["predict", str(rings), str(new), "--out", str(out)]) == 0
    assert "2 of 3 rows" in capsys.readouterr().out
    rows = read_rows(out)
    assert [bool(row["predicted_0"]) for row in rows] == [True, False, True]
    assert [bool(row["reason"]) for row in rows] == [False, True, False]
    assert rows[1]["reason"].startswith("x: ")
    torch.save([_ring(5, 3), _ring(4, 2)], new / "g.pt")
    assert main(["predict", str(rings), str(new), "--out", str(out)]) == 0
    again = [row["predicted_0"] for row in read_rows(out)]
    assert [float(cell) for cell in again] == pytest.approx(
        [float(rows[i]["predicted_0"]) for i in (0, 2)], rel=1e-5
    )


def test_no_graph_that_the_model_can_take_is_an_error(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(6, 5)], new / "g.pt")
    assert main(["predict", str(rings), str(new), "--out", str(tmp_path / "p.csv")]) == 2
    assert "x: " in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_a_model_of_zinc_takes_smiles(tmp_path):
    pytest.importorskip("rdkit")
    small = load_preset("zinc").model.replace(layers=1, hidden_dim=8)
    card = ModelCard(
        small,
        NumberTarget(),
        InputFormat(featurizer="zinc", unknown_type=21),
        BenchmarkData("zinc"),
    )
    save_model(tmp_path / "model", Eigenformer(small), card)
    table, out = tmp_path / "new.csv", tmp_path / "p.csv"
    table.write_text("smiles\nCC(=O)Nc1ccc(O)cc1\nOB(O)c1ccccc1\n")
    assert main(["predict", str(tmp_path / "model"), str(table), "--out", str(out)]) == 0
    rows = read_rows(out)
    assert [bool(row["predicted_0"]) for row in rows] == [True, False]
    assert rows[1]["reason"].endswith("the model was trained on ZINC, which has no atom 'B'")


def test_a_bad_row_keeps_its_place_whatever_is_bad_about_it(run, tmp_path, monkeypatch, capsys):
    """A molecule too large for a spectrum, two words, and a prediction that is no number."""
    from eigenformer.trained_model import TrainedModel

    smiles = ["CCO", "C" * 20_000, "c1ccccc1 this is no smiles", "CCN", "CCF"]
    (tmp_path / "new.csv").write_text("smiles\n" + "\n".join(smiles) + "\n")
    predictions = TrainedModel.predictions

    def with_nan(trained, graphs, *arguments):
        found = predictions(trained, graphs, *arguments)
        values = found.values.where(found.values != found.values[-1], torch.nan)
        return replace(found, values=values)

    out = tmp_path / "p.csv"
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    rows = read_rows(out)
    assert "20,000 exceeds the limit of 5,000" in rows[1]["reason"]
    large = ["--limits", "atoms=50k", "--out", str(out)]
    assert main(["predict", str(run), str(tmp_path / "new.csv"), *large]) == 0
    rows = read_rows(out)
    assert [row["smiles"] for row in rows] == smiles
    assert [bool(row["predicted_weight"]) for row in rows] == [True, False, False, True, True]
    assert "of 20000 nodes" in rows[1]["reason"]
    assert "a SMILES has no blanks" in rows[2]["reason"]
    (tmp_path / "new.csv").write_text("smiles\nCCO\nCCCCF\n")
    monkeypatch.setattr(TrainedModel, "predictions", with_nan)
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    good, bad = read_rows(out)
    assert (bool(good["predicted_weight"]), good["reason"]) == (True, "")
    assert (bad["predicted_weight"], bad["reason"]) == ("", "the prediction is not a finite number")


def test_leftovers_of_a_killed_prediction_are_removed(run, tmp_path):
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    left = tmp_path / f".p.csv~{platform.node()}~{2**22 + 1}~abcdefgh"  # no process has this number
    left.write_bytes(b"smi")
    out = tmp_path / "p.csv"
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"new.csv", "p.csv"}


def test_an_output_never_replaces_the_input_or_the_model(rings, tmp_path, capsys):
    """A file of a folder of graphs, a file of the run, and a link to one."""
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(5, 3)], new / "g.pt")
    (new / "notes.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to(new / "notes.csv")
    metrics = (rings / "metrics.csv").read_bytes()
    inside = "is a file of the input"
    for out, reason in (
        (new / "notes.csv", inside),
        (tmp_path / "link.csv", inside),
        (rings / "metrics.csv", "is a file of a model"),
    ):
        assert main(["predict", str(rings), str(new), "--out", str(out)]) == 2
        assert f"{out}: {reason}" in capsys.readouterr().err
    assert (new / "notes.csv").read_text() == "mine"
    assert (rings / "metrics.csv").read_bytes() == metrics
    assert main(["predict", str(rings), str(new), "--out", str(rings / "mine.csv")]) == 0


def test_the_name_of_an_output_says_its_format(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(5, 3)], new / "g.pt")
    texts = {}
    for name in ("p.csv", "p.TSV", "p.txt", "p.csv.gz", "p.tsv.GZ"):
        assert main(["predict", str(rings), str(new), "--out", str(tmp_path / name)]) == 0
        data = (tmp_path / name).read_bytes()
        texts[name] = (gzip.decompress(data) if name.lower().endswith("gz") else data).decode()
    assert texts["p.csv"].startswith("graph,predicted_0,reason")
    assert texts["p.csv"] == texts["p.txt"] == texts["p.csv.gz"]
    assert texts["p.TSV"] == texts["p.tsv.GZ"] == texts["p.csv"].replace(",", "\t")
    for name in ("p.xlsx", "p.parquet", "p", "p.gz"):
        assert main(["predict", str(rings), str(new), "--out", str(tmp_path / name)]) == 2
        assert f"{name}: predictions are written to .csv" in capsys.readouterr().err
        assert not (tmp_path / name).exists()


def _predicted(run, source, tmp_path) -> list[dict[str, str]]:
    out = tmp_path / "p.csv"
    assert main(["predict", str(run), str(source), "--out", str(out)]) == 0
    return read_rows(out)


def test_a_bad_graph_in_a_folder_keeps_its_place(rings, tmp_path, capsys):
    """An edge to a missing node, other attributes, too many nodes, a damaged file, targets."""
    new = tmp_path / "new"
    new.mkdir()
    lost, other, huge, labelled = (_ring(5, 3) for _ in range(4))
    lost.edge_index[0, 0] = 7
    other.x = torch.full((5, 1), torch.nan)
    huge.x, huge.num_nodes = None, 2**62
    labelled.y = torch.ones(1)
    torch.save([_ring(5, 3), lost, other, _ring(4, 2), huge, labelled], new / "a.pt")
    (new / "b.pt").write_bytes(b"not a graph")
    rows = _predicted(rings, new, tmp_path)
    assert [row["graph"] for row in rows] == [*(f"a/{i}" for i in range(6)), "b"]
    assert [bool(row["predicted_0"]) for row in rows] == [
        True,
        False,
        False,
        True,
        False,
        True,
        False,
    ]
    reasons = [row["reason"] for row in rows]
    assert reasons[1].startswith("edge [7, 1] (column 0) leads to a missing node")
    assert reasons[2] == "'x' holds a NaN or an infinite value"
    assert "nodes: 4,611,686,018,427,387,904 exceeds" in reasons[4]
    assert "b.pt" in reasons[6]
    assert "3 of 7 rows predicted" in capsys.readouterr().out
    torch.save([lost], new / "a.pt")
    assert main(["predict", str(rings), str(new), "--out", str(tmp_path / "q.csv")]) == 2
    assert not (tmp_path / "q.csv").exists()


def test_a_bad_graph_of_an_archive_keeps_its_place(rings, tmp_path):
    good = GraphArchive.from_data_list([_ring(5, 3), _ring(4, 2), _ring(6, 3)])
    edges = good.edge_index.copy()
    edges[0, 10] = 9
    forged = GraphArchive(good.node_offsets, good.edge_offsets, edges, good.fields, _written=True)
    forged.save(tmp_path / "archive")
    rows = _predicted(rings, tmp_path / "archive", tmp_path)
    assert [(row["graph"], bool(row["predicted_0"])) for row in rows] == [
        ("0", True),
        ("1", False),
        ("2", True),
    ]
    assert rows[1]["reason"].startswith("edge [9, 1] (column 0) leads to a missing node")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A model of paths in three tables, with a feature of nodes."""
    folder = tmp_path_factory.mktemp("tables")
    graphs = {f"g{i}": [0.5 * i, 1.0, 2.0] for i in range(20)}
    _write_tables(folder / "all", graphs)
    command = ["train", str(folder / "all"), "--target", "y", "--undirected"]
    assert main([*command, "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


def _write_tables(folder: Path, graphs: dict[str, list[object]], edges: str = "") -> None:
    folder.mkdir(exist_ok=True)
    nodes = [f"{g},{i},{cell}" for g, cells in graphs.items() for i, cell in enumerate(cells)]
    links = [f"{g},{i},{i + 1}" for g, cells in graphs.items() for i in range(len(cells) - 1)]
    names = [f"{g},{i / 2}" for i, g in enumerate(graphs)]
    for name, header, lines in (
        ("graphs", "graph,y", names),
        ("nodes", "graph,node,f", nodes),
        ("edges", "graph,source,target", links),
    ):
        (folder / f"{name}.csv").write_text(
            "\n".join([header, *lines]) + "\n" + edges * (name == "edges")
        )


def test_a_bad_graph_of_tables_keeps_its_place(tables, tmp_path):
    """A cell that is not a number, one that is too long, and an edge to a missing node."""
    graphs: dict[str, list[object]] = {
        "a": [1.0, 2.0],
        "b": [1.0, "red", 3.0],
        "c": [2.5, 1.0],
        "d": [1.0, "5" * 1_000_001],
        "e": [1.0, 1.0],
        "f": [1.0, 1.0, f"{1.0},7"],
        "g": [3.0],
    }
    _write_tables(tmp_path / "new", graphs, "e,0,9\n")
    rows = _predicted(tables, tmp_path / "new", tmp_path)
    assert [row["graph"] for row in rows] == list(graphs)
    told = [row["reason"] for row in rows]
    assert [bool(row["predicted_y"]) for row in rows] == [not reason for reason in told]
    assert [bool(reason) for reason in told] == [False, True, False, True, True, True, False]
    assert "nodes.csv, line 5: f: 'red' is not a number" in told[1]
    assert "the length of a cell exceeds the limit of 1,000,000" in told[3]
    assert "node '9' is not among the nodes of graph 'e'" in told[4]
    assert "4 cells, but the header has 3" in told[5]
    alone = {name: graphs[name] for name in ("a", "c", "g")}
    _write_tables(tmp_path / "good", alone)
    again = _predicted(tables, tmp_path / "good", tmp_path)
    assert [row["predicted_y"] for row in again] == [rows[i]["predicted_y"] for i in (0, 2, 6)]
    _write_tables(tmp_path / "bad", {"b": graphs["b"]})
    assert (
        main(["predict", str(tables), str(tmp_path / "bad"), "--out", str(tmp_path / "q.csv")]) == 2
    )


def test_names_of_two_graphs_and_open_quotes_are_told_in_the_output(tables, tmp_path):
    graphs: dict[str, list[object]] = {"a": [1.0, 2.0], "b": [1.0], "c": [2.0], "d": [0.5]}
    new = tmp_path / "new"
    _write_tables(new, graphs)
    with (new / "graphs.csv").open("a") as stream:
        stream.write('b,1\ne,"2\n')
    with (new / "nodes.csv").open("a") as stream:
        stream.write('d,"1\n')
    rows = _predicted(tables, new, tmp_path)
    told = {row["graph"]: row["reason"] for row in rows}
    assert [row["graph"] for row in rows] == ["a", "b", "c", "d", "b", "e"]
    assert [bool(row["predicted_y"]) for row in rows] == [True, False, True, *[False] * 3]
    assert "graphs.csv, line 6: graph 'b' appears twice" in told["b"]
    assert "nodes.csv, line 7: a quote is not closed" in told["d"]
    assert "graphs.csv, line 7: a quote is not closed" in told["e"]


@pytest.mark.parametrize("line", ['"a,0,1', "a\udcff,0,1", "a\t0\t1", "z,0,1"])
def test_a_line_of_an_unknown_graph_ends_it(tables, tmp_path, capsys, line):
    """Some graph lacks the line. Its prediction would be wrong."""
    _write_tables(tmp_path / "new", {"a": [1.0, 2.0], "b": [1.0, 2.0]})
    file = tmp_path / "new" / "edges.csv"
    text = file.read_text().replace("a,0,1", line)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    command = ["predict", str(tables), str(tmp_path / "new"), "--out", str(tmp_path / "p.csv")]
    assert main(command) == 2
    assert "edges.csv, line 2: " in capsys.readouterr().err


def test_two_open_quotes_swallow_no_graph(tables, tmp_path):
    _write_tables(tmp_path / "new", {"a": [1.0, 2.0], "b": [1.0, 2.0], "c": [1.0, 2.0]})
    file = tmp_path / "new" / "nodes.csv"
    text = file.read_text().replace("a,1,2.0", 'a,1,"2.0').replace("b,1,2.0", 'b,1,2.0"')
    file.write_text(text)
    rows = _predicted(tables, tmp_path / "new", tmp_path)
    assert [bool(row["predicted_y"]) for row in rows] == [False, False, True]
    assert "line 3: a quote is not closed: the cell goes on to line 5" in rows[0]["reason"]
    assert "line 5: f: '2.0\"' is not a number" in rows[1]["reason"]


def test_graphs_beyond_the_limit_keep_their_place(tables, tmp_path, capsys):
    _write_tables(tmp_path / "new", {"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0], "c": [1.0]})
    command = ["predict", str(tables), str(tmp_path / "new"), "--out", str(tmp_path / "p.csv")]
    assert main([*command, "--limits", "nodes=2"]) == 0
    reasons = [row["reason"] for row in read_rows(tmp_path / "p.csv")]
    assert [bool(reason) for reason in reasons] == [False, True, False]
    assert "line 3: graph 'b': nodes: 3 exceeds the limit of 2" in reasons[1]
    train = ["train", str(tmp_path / "new"), "--target", "y", "--out", str(tmp_path / "run")]
    assert main([*train, "--limits", "nodes=2"]) == 2
    assert "graph 'b': nodes: 3 exceeds the limit of 2" in capsys.readouterr().err


def test_a_cell_of_parquet_that_has_no_text_keeps_its_place(run, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    names = arrow.array([b"a", b"\xff", b"c"]).view("string")
    days = arrow.array([1, 2, 10**8], arrow.int32()).view(arrow.date32())
    smiles = arrow.array([b"CCO", b"CCN", b"CCC"])
    times = arrow.array([1, 2, 3], arrow.timestamp("ns"))
    table = arrow.table({"name": names, "smiles": smiles, "day": days, "time": times})
    parquet.write_table(table, tmp_path / "new.parquet")
    rows = _predicted(run, tmp_path / "new.parquet", tmp_path)
    assert [row["smiles"] for row in rows] == ["CCO", "CCN", "CCC"]
    assert rows[0]["predicted_weight"]
    assert rows[1]["reason"] == "column 'name': not UTF-8 text"
    assert rows[2]["reason"].startswith("column 'day': ")


def test_cells_beyond_the_header_are_told(run, tmp_path):
    (tmp_path / "new.csv").write_text('smiles,id\nCCO,1,extra,"more, data"\nCCN,2\n')
    rows = _predicted(run, tmp_path / "new.csv", tmp_path)
    assert rows[0]["reason"] == "4 cells, the header has 2; beyond them: extra, more, data"
    assert rows[1]["predicted_weight"]


def test_a_quote_that_is_not_closed_spoils_its_row_only(run, tmp_path):
    (tmp_path / "new.csv").write_bytes(b'id,smiles\n1,CCO\n2,"CCC\n3,CCN\n\xe4,CCF\n5,CCCl\n')
    rows = _predicted(run, tmp_path / "new.csv", tmp_path)
    assert [row["id"] for row in rows] == ["1", "2", "3", "\ufffd", "5"]
    assert [bool(row["predicted_weight"]) for row in rows] == [True, False, True, False, True]
    assert "a quote is not closed" in rows[1]["reason"]
    assert "not UTF-8 text" in rows[3]["reason"]


@pytest.mark.parametrize("length", [1_000_001, 20_000_000])
def test_a_cell_that_is_too_long_keeps_its_place(run, tmp_path, length):
    long = "C" * length
    (tmp_path / "new.csv").write_text(f'id,smiles\n1,CCO\n2,{long}\n3,"CCN"\n')
    rows = _predicted(run, tmp_path / "new.csv", tmp_path)
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert [bool(row["predicted_weight"]) for row in rows] == [True, False, True]
    assert "the length of a cell exceeds the limit of 1,000,000" in rows[1]["reason"]


@pytest.mark.skipif(os.name != "posix", reason="needs names of any bytes")
def test_a_file_name_that_is_not_utf8_is_one_sentence(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    with open(os.fsencode(new) + b"/bad\xff.pt", "wb") as stream:
        torch.save([_ring(5, 3, 1.0)], stream)
    out = str(tmp_path / "p.csv")
    for command in (["predict", str(rings), str(new)], ["train", str(new), *SMALL]):
        assert main([*command, "--out", out]) == 2
        assert r"bad\udcff.pt: the path is not valid UTF-8; rename" in capsys.readouterr().err
