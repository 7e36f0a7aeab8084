"""The positions and labels of a graph's nodes in a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eigenformer.data.errors import DataError
from eigenformer.data.molecules import parse_smiles
from eigenformer.data.zinc import ATOM_WORDS, KNOWN_ATOMS
from eigenformer.limits import DEFAULT_LIMITS, Limits

MOST_NODES = 600
"""The largest number of nodes for which a drawing is legible."""

# Molecules with more atoms than this get the layout for large molecules.
_LARGE_MOLECULE = 60
# The bond orders of OGB's bond types, by number. The last is "anything else".
_OGB_ORDERS = (1.0, 2.0, 3.0, 1.5, 0.0)


@dataclass(frozen=True, eq=False)
class Drawing:
    """A graph in the plane.

    Args:
        positions: ``[n, 2]``, in units of about one edge.
        labels: The text on each node: an atom's symbol, or nothing.
        edges: ``[m, 2]``, each edge once.
        orders: The order of each edge: 1, 2, 3, 1.5 for an aromatic bond, 0 for another kind of
            bond.
        is_molecule: Whether nodes and edges are atoms and bonds.
    """

    positions: np.ndarray
    labels: tuple[str, ...]
    edges: np.ndarray
    orders: np.ndarray
    is_molecule: bool = False

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def letters(self) -> tuple[str, ...]:
        """The labels as chemists write them: without carbon, unless it is an isolated atom."""
        alone = np.setdiff1d(np.arange(len(self)), self.edges).tolist()
        return tuple(
            "" if label == "C" and node not in alone else label
            for node, label in enumerate(self.labels)
        )


def draw_smiles(smiles: str, limits: Limits = DEFAULT_LIMITS) -> Drawing:
    """Draws a molecule in RDKit's layout, with its atoms in the order of the SMILES."""
    return _draw_molecule(parse_smiles(smiles, limits), smiles)


def draw_features(
    edge_index: np.ndarray, x: np.ndarray, edge_attr: np.ndarray, featurizer: str
) -> Drawing:
    """Draws a molecule without its SMILES: reads atoms and bonds back from the features."""
    from rdkit import Chem

    _check_size(len(x))
    molecule = Chem.RWMol()
    for symbol, charge in _atoms(x, featurizer):
        atom = Chem.Atom(symbol)
        atom.SetFormalCharge(charge)
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
    bonds = edge_attr.reshape(len(edge_attr), -1)[:, 0]
    names = {0.0: "ZERO", 1.0: "SINGLE", 1.5: "AROMATIC", 2.0: "DOUBLE", 3.0: "TRIPLE"}
    for (i, j), kind in zip(edge_index.T.tolist(), bonds.tolist(), strict=True):
        if i < j and molecule.GetBondBetweenAtoms(i, j) is None:
            order = float(kind) if featurizer == "zinc" else _OGB_ORDERS[kind]
            molecule.AddBond(i, j, getattr(Chem.BondType, names[order]))
    molecule.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(molecule)
    return _draw_molecule(molecule, "the molecule")


def draw_graph(edge_index: np.ndarray, num_nodes: int, seed: int = 0) -> Drawing:
    """Draws any other graph in a spring layout. The same graph gives the same picture."""
    import networkx as nx

    _check_size(num_nodes)
    edges = undirected(edge_index)
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edges.tolist())
    # Started from the spectral layout, springs settle without knots, the same way every time.
    start = nx.spectral_layout(graph) if num_nodes > 2 else None
    layout = nx.spring_layout(graph, pos=start, seed=seed, iterations=200)
    positions = np.array([layout[node] for node in range(num_nodes)]).reshape(-1, 2)
    return _plain(positions * np.sqrt(max(num_nodes, 1)), edges)


def draw_superpixels(edge_index: np.ndarray, x: np.ndarray) -> Drawing:
    """Draws superpixels at their place in the image: the last two features are row and column."""
    _check_size(len(x))
    row, column = x[:, -2:].T * np.sqrt(max(len(x), 1))
    return _plain(np.stack([column, -row], 1).astype(np.float64), undirected(edge_index))


def _plain(positions: np.ndarray, edges: np.ndarray) -> Drawing:
    return Drawing(positions, ("",) * len(positions), edges, np.ones(len(edges)))


def undirected(edge_index: np.ndarray) -> np.ndarray:
    """Returns each edge once, from the lower node to the higher, without self-loops."""
    pairs = np.sort(edge_index.T.astype(np.int64), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def _draw_molecule(molecule: Any, name: str) -> Drawing:
    from rdkit.Chem import rdCoordGen, rdDepictor

    count = molecule.GetNumAtoms()
    _check_size(count, name)
    molecule = type(molecule)(molecule)
    if count > _LARGE_MOLECULE:  # the ordinary layout would overlap itself
        rdCoordGen.AddCoords(molecule)
    else:
        rdDepictor.Compute2DCoords(molecule, canonOrient=True, forceRDKit=True)
    positions = molecule.GetConformer().GetPositions()[:, :2] / 1.5  # RDKit's bond length
    if count > _LARGE_MOLECULE:
        positions = _lying(positions)
    bonds = list(molecule.GetBonds())
    edges = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    return Drawing(
        positions,
        tuple(_label(atom) for atom in molecule.GetAtoms()),
        np.array(edges, dtype=np.int64).reshape(-1, 2),
        np.array([_order(bond) for bond in bonds]),
        is_molecule=True,
    )


def _lying(positions: np.ndarray) -> np.ndarray:
    """Rotates a drawing so that it is wide rather than high."""
    centred = positions - positions.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return centred @ (axes.T * (1, np.linalg.det(axes)))  # rotated, not mirrored


def _label(atom: Any) -> str:
    charge = atom.GetFormalCharge()
    size = str(abs(charge)) if abs(charge) > 1 else ""
    return atom.GetSymbol() + (f"{size}{'+' if charge > 0 else '−'}" if charge else "")


def _order(bond: Any) -> float:
    order = float(bond.GetBondTypeAsDouble())
    return order if order in (1.0, 1.5, 2.0, 3.0) else 0.0


def _atoms(x: np.ndarray, featurizer: str) -> list[tuple[str, int]]:
    """Returns the symbol and charge of each atom; "*" for an unknown atom."""
    from rdkit import Chem

    if featurizer == "zinc":
        words = [ATOM_WORDS[kind] if kind < KNOWN_ATOMS else "*" for kind in x.reshape(-1).tolist()]
        signs = {"+": 1, "-": -1}
        return [(word.split()[0], signs.get(word.split()[-1], 0)) for word in words]
    table = Chem.GetPeriodicTable()
    return [
        (
            table.GetElementSymbol(number + 1) if number < 118 else "*",
            charge - 5 if charge <= 10 else 0,
        )
        for number, charge in x[:, [0, 3]].tolist()
    ]


def _check_size(num_nodes: int, name: str = "the graph") -> None:
    if num_nodes > MOST_NODES:
        shown = name if len(name) < 50 else f"{name[:40]}…"
        raise DataError(
            f"{shown}: {num_nodes} nodes are too many to draw; at most {MOST_NODES} can be shown"
        )


def names_of(labels: Sequence[str]) -> tuple[str, ...]:
    """Returns a name for each node: its symbol, if any, and its number."""
    return tuple(f"{label}{index}" for index, label in enumerate(labels))
