from __future__ import annotations

import csv
import gzip
from collections import Counter

import numpy as np
import pytest

from eigenformer.data import DataError, featurizer
from eigenformer.data.molecules import (
    OGB_ATOM_SIZES,
    OGB_BOND_SIZES,
    MoleculeError,
    from_smiles,
    parse_smiles,
    scaffold,
    zinc_words,
)
from eigenformer.data.zinc import ATOM_WORDS

pytest.importorskip("rdkit")

ANYTHING = [
    *("C", "[Na+].[Cl-]", "[2H]C([2H])[2H]", "[13CH4]", "*", "[U]", "[H][H]", "[HH]", "[Fe+7]"),
    *("c1ccccc1", "c1cc[nH]c1", "[O-][n+]1ccccc1", "C[C@H](N)O", "C[C@@H](N)O", "F/C=C/F", "C$C"),
    *("F/C=C\\F", "N->[Cu]", "c1ccccc1~[Fe]", "CC#N", "[CH3]", "[O-]S(=O)(=O)[O-]", "[Xe]"),
    *("FS(F)(F)(F)(F)F", "S(F)(F)(F)F", "[B-2]C", "C=[N+]=[N-]", "O=[Os](=O)(=O)=O"),
    *("C1CC2CCC1CC2", "C[Pt@SP1](F)(Cl)[H]"),
]


@pytest.mark.parametrize("name", ["molecule", "ogb", "zinc"])
@pytest.mark.parametrize("smiles", ANYTHING)
def test_every_molecule_gives_a_graph_within_the_vocabulary(name, smiles):
    make = featurizer(name)
    graph = make(smiles)
    for values, sizes in ((graph.x, make.atom_sizes), (graph.edge_attr, make.bond_sizes)):
        values = values.reshape(len(values), len(sizes))
        assert (values >= 0).all()
        assert (values < np.array(sizes)).all()
    atoms = parse_smiles(smiles).GetNumAtoms()
    bonds = parse_smiles(smiles).GetNumBonds()
    assert len(graph.x) == atoms
    assert graph.edge_index.shape == (2, 2 * bonds)
    assert graph.x.dtype == graph.edge_attr.dtype == graph.edge_index.dtype == np.int64
    pairs = Counter(map(tuple, graph.edge_index.T.tolist()))
    assert all(pairs[j, i] == count for (i, j), count in pairs.items())


def test_ogb_features_of_a_known_molecule():
    # The example of OGB's own documentation of its features.
    graph = featurizer("ogb")("Cl[C@H](/C=C/C)Br")
    assert graph.x[1].tolist() == [5, 2, 4, 5, 1, 0, 2, 0, 0]
    double = graph.edge_index.T.tolist().index([2, 3])
    assert graph.edge_attr[double].tolist() == [1, 2, 0]
    # Each bond, then its reverse, in the order of the molecule.
    assert graph.edge_index.T.tolist()[:4] == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_ogb_covers_the_rare():
    make = featurizer("ogb")
    assert make("*").x[0, 0] == 118
    assert make("[U]").x[0, 0] == 91
    assert make("[Fe+7]").x[0, 3] == 11
    assert make("[Fe-2]").x[0, 3] == 3
    assert make("C$C").edge_attr[0, 0] == 4
    assert make("c1ccccc1").edge_attr[0].tolist() == [3, 0, 1]
    assert make("[CH3]").x[0, 5] == 1
    assert make("C1CC1").x[0, 8] == 1
    assert OGB_ATOM_SIZES == (119, 5, 12, 12, 10, 6, 6, 2, 2)
    assert OGB_BOND_SIZES == (5, 6, 2)


def test_zinc_words_are_the_written_ones():
    words = zinc_words(parse_smiles("C[C@H](N)C([O-])=O"))
    assert words == ["C", "C H1", "N", "C", "O -", "O"]
    assert zinc_words(parse_smiles("c1cc[nH]c1")) == ["C", "C", "C", "N", "C"]
    assert zinc_words(parse_smiles("C[NH3+]")) == ["C", "N H3 +"]
    assert zinc_words(parse_smiles("[13CH3]C")) == ["C", "C"]
    assert featurizer("zinc")("[Na+]").x.tolist() == [[21]]


@pytest.mark.parametrize("step", [40])
def test_zinc_words_are_those_of_the_real_molecules(raw_dir, step):
    """The same atoms and bonds; in half of the molecules also in the same order."""
    arrays = np.load(raw_dir / "zinc" / "zinc12k.npz")
    with gzip.open(raw_dir / "zinc" / "zinc12k.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    make, ordered = featurizer("zinc"), 0
    for index in range(0, len(rows), step):
        atoms = arrays["atom_type"][slice(*arrays["node_offset"][index : index + 2])]
        bonds = arrays["bond"][slice(*arrays["bond_offset"][index : index + 2])]
        graph = make(rows[index]["smiles"])
        assert sorted(graph.x[:, 0]) == sorted(atoms), rows[index]
        # Which bonds of a ring are the double ones is a matter of taste; how many is not.
        assert sorted(graph.edge_attr) == sorted(np.repeat(bonds[:, 2], 2))
        assert sorted(pairs(graph.edge_index.T, graph.x[:, 0])) == sorted(
            pairs(np.concatenate([bonds[:, :2], bonds[:, 1::-1]]), atoms)
        )
        words = [ATOM_WORDS[atom] for atom in atoms]
        ordered += zinc_words(parse_smiles(rows[index]["smiles"])) == words
    assert ordered > len(range(0, len(rows), step)) / 2


def pairs(edges, types):
    """The types of the ends of each edge."""
    return [(int(types[i]), int(types[j])) for i, j in edges]


def test_atoms_stay_in_the_order_they_are_written():
    forward, backward = featurizer("zinc")("CNO"), featurizer("zinc")("ONC")
    assert forward.x[:, 0].tolist() == [0, 2, 1]
    assert backward.x[:, 0].tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("", "the SMILES is empty"),
        ("  ", "the SMILES is empty"),
        ("CC\u200b", r"'CC\\u200b': a SMILES has only letters, digits and signs of ASCII"),
        ("\ufeffCC", "only letters, digits and signs"),
        ("CC\x01", "only letters, digits and signs"),
        ("xyz", "'xyz': invalid SMILES"),
        ("C1CC", "'C1CC': invalid SMILES"),
        ("c1cccc1", "kekulize"),
        ("C(C)(C)(C)(C)C", "valence for atom # 0 C, 5"),
    ],
)
def test_what_rdkit_rejects_has_a_reason(smiles, reason, capfd):
    with pytest.raises(DataError, match=reason):
        featurizer("ogb")(smiles)
    assert capfd.readouterr().err == ""


def test_an_unknown_featurizer():
    with pytest.raises(DataError, match="the nearest is 'zinc'"):
        featurizer("zink")


def test_scaffolds():
    assert scaffold("CCc1ccccc1") == scaffold("c1ccccc1O") == "c1ccccc1"
    assert scaffold("CCO") == ""


def test_a_molecule_ready_for_a_model():
    from eigenformer import from_smiles

    data = from_smiles("CCO")
    assert data.x.shape == (3, 9)
    assert data.eigenvalues.shape == (3,)
    assert "num_frequencies" not in data
    few = from_smiles("CCO", featurizer="zinc", num_frequencies=2)
    assert few.x.tolist() == [[0], [0], [1]]
    assert few.num_frequencies == 2
    with pytest.raises(DataError, match="featurizer 'ogp': unknown; the nearest is 'ogb'"):
        from_smiles("CCO", featurizer="ogp")


@pytest.mark.parametrize("wrong", [None, 3, b"CCO", ["CCO"]])
def test_what_is_not_a_string_is_not_a_smiles(wrong):
    with pytest.raises(MoleculeError, match="expected a SMILES as a string, got "):
        from_smiles(wrong)


def test_chirality_does_not_depend_on_how_a_smiles_is_written():
    """OGB's tag does: alanine, written from its nitrogen and from its acid."""
    one, other = "N[C@@H](C)C(=O)O", "OC(=O)[C@H](C)N"
    tags = [sorted(featurizer("ogb")(text).x[:, 1].tolist()) for text in (one, other)]
    assert tags[0] != tags[1]
    labels = [sorted(featurizer("molecule")(text).x[:, 1].tolist()) for text in (one, other)]
    assert labels[0] == labels[1] == [0, 0, 0, 0, 0, 2]  # S
    mirrored = featurizer("molecule")("N[C@H](C)C(=O)O")
    assert sorted(mirrored.x[:, 1].tolist()) == [0, 0, 0, 0, 0, 1]  # R
    unlabelled = featurizer("molecule")("O[C@H]1CC[C@@H](O)CC1")
    assert sorted(unlabelled.x[:, 1].tolist())[-2:] == [3, 3]
