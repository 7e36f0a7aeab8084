from __future__ import annotations

import pytest
import torch

from eigenformer.config import ConfigError
from eigenformer.data import DataError, ReadOptions, read_own
from tests.data.samples import equal_archives

GRAPHS = "graph,y,part\na,1.5,train\nb,,test\n"
NODES = (
    "graph,node,charge,size,label\nb,p,1,0.5,0\na,u,2,1.5,1\na,v,3,2.5,0\nb,q,4,3.5,1\na,w,5,4,0\n"
)
EDGES = "graph,source,target,kind\na,u,v,1\nb,q,p,2\na,w,u,3\n"


@pytest.fixture
def write(tmp_path):
    def write(graphs=GRAPHS, nodes=NODES, edges=EDGES):
        for name, text in (("graphs", graphs), ("nodes", nodes), ("edges", edges)):
            if text is not None:
                (tmp_path / f"{name}.csv").write_text(text)
        return tmp_path

    return write


def test_features_that_single_precision_cannot_tell_apart(write):
    nodes = NODES.replace("0.5", "100000000.001").replace("1.5", "100000000.2")
    for size in ("2.5", "3.5", ",4,"):
        nodes = nodes.replace(size, ",100000000.3," if "," in size else "100000000.3")
    with pytest.raises(
        DataError, match=r"nodes.csv, line 1: column 'size': all values are equal in"
    ):
        read_own(write(nodes=nodes), ReadOptions(targets=("y",)))


def test_targets_of_graphs(write):
    archive = read_own(write(), ReadOptions(targets=("y",), split_column="part")).archive
    a, b = archive
    assert list(archive.names) == ["a", "b"]
    assert archive.meta["columns"] == {"x": ["charge", "label", "size"], "edge_attr": ["kind"]}
    assert a.x.tolist() == [[2, 1, 1.5], [3, 0, 2.5], [5, 0, 4]]
    assert a.edge_index.tolist() == [[0, 2], [1, 0]]
    assert a.edge_attr.tolist() == [[1], [3]]
    assert a.edge_attr.dtype == torch.int64
    assert b.edge_index.tolist() == [[1], [0]]
    assert a.y.tolist() == [1.5]
    assert b.y.isnan().all()
    assert archive.split.tolist() == [0, 2]
    assert archive.target.level == "graph"


def test_targets_of_nodes(write):
    archive = read_own(write(), ReadOptions(targets=("label",))).archive
    assert archive.target.level == "node"
    assert archive.target.kind == "binary"
    assert archive[0].y.tolist() == [1, 0, 0]
    assert archive[0].x.shape == (3, 2)
    classes = read_own(write(), ReadOptions(targets=("label",), task="multiclass")).archive
    assert classes[1].y.tolist() == [0, 1]
    assert classes[1].y.dtype == torch.int64


def test_edges_that_go_both_ways(write):
    edges = "graph,source,target,kind\na,u,v,1\na,v,v,7\nb,q,p,2\n"
    archive = read_own(write(edges=edges), ReadOptions(undirected=True)).archive
    assert archive[0].edge_index.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert archive[0].edge_attr.tolist() == [[1], [1], [7]]
    assert archive[1].edge_index.tolist() == [[1, 0], [0, 1]]


def test_edges_that_are_listed_both_ways_stay(write):
    edges = "graph,source,target,kind\na,u,v,1\na,v,u,2\na,w,u,3\nb,q,p,4\n"
    archive = read_own(write(edges=edges), ReadOptions(undirected=True)).archive
    assert archive[0].edge_index.tolist() == [[0, 1, 2, 0], [1, 0, 0, 2]]
    assert archive[0].edge_attr.tolist() == [[1], [2], [3], [3]]
    assert archive[1].edge_index.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("undirected", [False, True])
def test_graphs_without_edges(write, undirected):
    archive = read_own(
        write(edges="graph,source,target,kind\n"), ReadOptions(undirected=undirected)
    ).archive
    assert archive[0].edge_index.shape == (2, 0)
    assert archive[0].edge_attr.shape == (0, 1)
    assert archive[0].num_nodes == 3


def test_whole_numbers_are_kept_exactly(write):
    nodes = f"graph,node,id,flag\na,u,{2**53 + 1},True\nb,p,{-(2**63)},false\n"
    archive = read_own(write(nodes=nodes, edges="graph,source,target\n")).archive
    assert archive[0].x.tolist() == [[1, 2**53 + 1]]
    assert archive[1].x.tolist() == [[0, -(2**63)]]


def test_the_order_of_columns_does_not_matter(write):
    first = read_own(write(), ReadOptions(targets=("y",))).archive
    rows = [line.split(",") for line in NODES.splitlines()]
    other = "".join(",".join(row[::-1]) + "\n" for row in rows)
    assert equal_archives(read_own(write(nodes=other), ReadOptions(targets=("y",))).archive, first)


def test_without_features(write):
    archive = read_own(
        write(nodes="graph,node\na,1\nb,1\n", edges="graph,source,target\na,1,1\n")
    ).archive
    assert archive.fields == {}
    assert archive[1].num_nodes == 1


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"edges": EDGES + "a,u,zz,1\n"}, r"edges\.csv, line 5: node 'zz' is not among the nodes"),
        ({"edges": EDGES + "a,p,u,1\n"}, r"line 5: node 'p' is not among the nodes of graph 'a'"),
        ({"edges": EDGES + "x,u,v,1\n"}, r"edges\.csv, line 5: graph 'x' is not in the table"),
        ({"nodes": NODES + "x,u,1,1,1\n"}, r"nodes\.csv, line 7: graph 'x' is not in the table"),
        ({"nodes": NODES + "a,u,1,1,1\n"}, r"line 7: node 'u' of graph 'a' appears twice"),
        (
            {"nodes": NODES.replace("2.5", "nan")},
            r"csv, line 4: size: 'nan' is not a number",
        ),
        ({"nodes": NODES.replace("2.5", "")}, r"nodes\.csv, line 4: size: '' is not a number"),
        ({"nodes": NODES.replace("2.5", "big")}, r"line 4: size: 'big' is not a number"),
        ({"nodes": NODES + "a,z,1\n"}, r"nodes\.csv, line 7: 3 cells, but the header has 5"),
        ({"graphs": GRAPHS + "a,1,train\n"}, r"graphs\.csv, line 4: graph 'a' appears twice"),
        ({"graphs": GRAPHS + "c,1,train\n"}, r"graphs\.csv, line 4: graph 'c' has no nodes"),
        ({"graphs": "graph,y,part\na,x,\nb,1,\n"}, r"graphs\.csv, line 2: y: 'x' is not a number"),
        ({"graphs": GRAPHS.replace("test", "tst")}, r"graphs\.csv, line 3: split 'tst': unknown"),
        ({"nodes": NODES.replace("2.5", "1e39")}, r"line 4: size: '1e39' exceeds single"),
        (
            {"edges": EDGES + f"a,u,v,{2**63}\n"},
            r"line 5: kind: '\d+' does not fit in a 64-bit",
        ),
        ({"graphs": GRAPHS.replace("1.5", "-1e39")}, r"graphs\.csv, line 2: y: '-1e39' exceeds"),
        (
            {"nodes": NODES.replace("size", "y")},
            r"target 'y': a column of both this table and",
        ),
        ({"graphs": "graph,y,part\na,,\nb,,\n"}, r"graphs\.csv, line 1: y: no row has a value"),
        ({"graphs": ""}, r"graphs\.csv: the file is empty"),
        ({"edges": None}, "the table 'edges' is missing"),
        ({"edges": "graph,from,to\na,u,v\n"}, r"column 'source': unknown"),
    ],
)
def test_tables_that_contradict_each_other(write, tables, message):
    with pytest.raises(DataError, match=message):
        read_own(write(**tables), ReadOptions(targets=("y",), split_column="part"))


def test_every_problem_is_listed(write):
    with pytest.raises(DataError) as caught:
        read_own(write(edges=EDGES + "a,u,zz,1\na,yy,u,1\n"))
    assert [problem.line for problem in caught.value.problems] == [5, 6]


def test_targets_are_of_graphs_or_of_nodes(write):
    with pytest.raises(DataError, match="must all be columns of graphs, or all columns of nodes"):
        read_own(write(), ReadOptions(targets=("y", "label")))


def test_columns_that_are_left_out(write):
    nodes = NODES.replace("label", "city").replace(",0\n", ",Rome\n").replace(",1\n", ",Oslo\n")
    with pytest.raises(DataError, match=r"nodes.csv, line 1: column 'city' holds text, .*--ignore"):
        read_own(write(nodes=nodes))
    archive = read_own(write(nodes=nodes), ReadOptions(ignored_columns=("city", "kind"))).archive
    assert archive.meta["columns"] == {"x": ["charge", "size"]}
    with pytest.raises(DataError, match="ignored_columns: 'citi': unknown; the nearest is 'city'"):
        read_own(write(nodes=nodes), ReadOptions(ignored_columns=("citi",)))


def test_a_target_is_not_left_out():
    with pytest.raises(ConfigError, match="ignored_columns: 'y' is a target"):
        ReadOptions(targets=("y",), ignored_columns=("y",))


def test_nodes_keep_their_names(write, tmp_path):
    archive = read_own(write()).archive
    assert list(archive.node_names) == ["u", "v", "w", "p", "q"]
    assert list(archive.subset([1]).node_names) == ["p", "q"]
    assert list(archive.save(tmp_path / "saved").with_target(None).node_names) == [*"uvwpq"]
    numbered = NODES
    for name, number in zip("uvwpq", "01201", strict=True):
        numbered = numbered.replace(f",{name},", f",{number},")
    edges = "graph,source,target\n"
    assert read_own(write(nodes=numbered, edges=edges)).archive.node_names is None
