"""SMILES → graphs, with RDKit (extra ``chem``). Training and prediction use the same code.

There are three featurisers. ``ogb`` has nine integers per atom and three per bond. It uses the
vocabulary of the Open Graph Benchmark, which covers every atom and bond that RDKit accepts.
``molecule``, the default, differs from it in how it describes chirality: by CIP labels, which are a
property of the molecule. OGB's tags depend on the order of the atoms in the SMILES.
``zinc`` has one word of the ZINC benchmark per atom and one per bond.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.descriptors import compute, computed
from eigenformer.data.errors import DataError
from eigenformer.data.fields import Field
from eigenformer.data.zinc import ATOM_WORDS, BOND_WORDS, KNOWN_ATOMS
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits
from eigenformer.nearest import unknown

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Mol
    from torch_geometric.data import Data

FEATURIZERS = ("molecule", "ogb", "zinc")
"""The names of the featurisers. The first is the default."""

_CHIRALITY = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER")
_CIP = ("", "R", "S")
_HYBRIDIZATION = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
_BOND_TYPE = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
_STEREO = ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY")

OGB_ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""Number of categories per atom feature. The last category of most is "anything else"."""

OGB_BOND_SIZES = (5, 6, 2)
"""Number of categories per bond feature."""


class MoleculeError(DataError):
    """Raised if a SMILES cannot be converted to a graph. The message gives the reason."""


@dataclass(frozen=True)
class MoleculeGraph:
    """One molecule: ``edge_index`` [2, m], ``x`` [n, ...], ``edge_attr`` [m, ...].

    Its ``descriptors`` [k] stand beside the graph; there may be none.
    """

    edge_index: np.ndarray
    x: np.ndarray
    edge_attr: np.ndarray
    descriptors: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))


@dataclass(frozen=True)
class Featurizer:
    """Converts molecules to graphs.

    Args:
        name: ``molecule``, ``ogb`` or ``zinc``.
        atom_sizes: Number of categories per column of ``x``.
        bond_sizes: Number of categories per column of ``edge_attr``.
        featurize: Converts a molecule to its graph.
        limits: How large a molecule may be.
        descriptors: The descriptors to compute; other names are ignored.
    """

    name: str
    atom_sizes: tuple[int, ...]
    bond_sizes: tuple[int, ...]
    featurize: Callable[[Mol], MoleculeGraph]
    limits: Limits = DEFAULT_LIMITS
    descriptors: tuple[str, ...] = ()

    def __call__(self, smiles: str) -> MoleculeGraph:
        """Returns the graph of a SMILES. Its atoms are in the order of the SMILES."""
        molecule = parse_smiles(smiles, self.limits)
        graph = self.featurize(molecule)
        if not computed(self.descriptors):
            return graph
        if "rdkit2d" in self.descriptors:
            _check_atoms(molecule, smiles, "descriptor_atoms", self.limits)
        return replace(graph, descriptors=compute(molecule, self.descriptors))


def from_smiles(
    smiles: str,
    featurizer: str = FEATURIZERS[0],
    num_frequencies: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    descriptors: Sequence[str] = (),
) -> Data:
    """Returns the graph of a molecule with its spectrum, ready for a model.

    Args:
        smiles: Any SMILES that RDKit accepts.
        featurizer: The featuriser of the model that takes the graph: ``molecule``, ``ogb`` or
            ``zinc``.
        num_frequencies: Keep this many of the lowest frequencies (default: all).
        limits: How large a molecule may be.
        descriptors: Descriptors to compute: ``rdkit2d``, ``morgan``.
    """
    import torch
    from torch_geometric.data import Data

    from eigenformer.spectrum import LaplacianSpectrum

    graph = _graph(smiles, featurizer, limits, descriptors)
    data = Data(
        x=torch.from_numpy(graph.x),
        edge_index=torch.from_numpy(graph.edge_index),
        edge_attr=torch.from_numpy(graph.edge_attr),
    )
    if len(graph.descriptors):
        data.descriptors = torch.from_numpy(graph.descriptors)[None]
    return LaplacianSpectrum(num_frequencies)(data)


def featurizer(
    name: str, limits: Limits = DEFAULT_LIMITS, descriptors: Sequence[str] = ()
) -> Featurizer:
    """Returns the featuriser with this name. It also computes descriptors."""
    table = {
        "molecule": (OGB_ATOM_SIZES, OGB_BOND_SIZES, molecule_graph),
        "ogb": (OGB_ATOM_SIZES, OGB_BOND_SIZES, ogb_graph),
        "zinc": ((KNOWN_ATOMS + 1,), (len(BOND_WORDS),), zinc_graph),
    }
    if name not in table:
        raise DataError(unknown(f"featurizer '{name}'", name, table))
    return Featurizer(name, *table[name], limits, tuple(descriptors))


def _graph(smiles: str, name: str, limits: Limits, descriptors: Sequence[str]) -> MoleculeGraph:
    return featurizer(name, limits, descriptors)(smiles)


def parse_smiles(smiles: str, limits: Limits = DEFAULT_LIMITS) -> Mol:
    """Parses a SMILES. Raises an error with RDKit's reason if RDKit rejects it."""
    chem = _chem()
    from rdkit import rdBase

    if not isinstance(smiles, str):
        raise MoleculeError(f"expected a SMILES as a string, got {smiles!r}")
    if not smiles.strip():
        raise MoleculeError("the SMILES is empty")
    try:
        limits.check("smiles_length", len(smiles), f"'{smiles[:20]}…': length of the SMILES")
    except LimitError as error:
        raise MoleculeError(str(error)) from None
    if len(smiles.split()) > 1:  # RDKit would read the first word only
        raise MoleculeError(f"'{smiles}': a SMILES has no blanks")
    if not (smiles.strip().isascii() and smiles.strip().isprintable()):  # RDKit skips some
        raise MoleculeError(f"{smiles!a}: a SMILES has only letters, digits and signs of ASCII")
    with rdBase.BlockLogs():
        molecule = chem.MolFromSmiles(smiles)
    if molecule is None:
        raise MoleculeError(f"'{smiles}': {_objection(smiles)}")
    if not molecule.GetNumAtoms():
        raise MoleculeError("the molecule has no atoms")
    _check_atoms(molecule, smiles, "atoms", limits)
    return molecule


def _check_atoms(molecule: Mol, smiles: str, name: str, limits: Limits) -> None:
    try:
        limits.check(name, molecule.GetNumAtoms(), f"'{smiles[:20]}…': number of atoms")
    except LimitError as error:
        raise MoleculeError(str(error)) from None


def ogb_graph(molecule: Mol) -> MoleculeGraph:
    """Returns a graph with nine integers per atom and three per bond.

    Each bond is stored in both directions, one after the other.

    Atoms: atomic number − 1, chirality, degree, charge + 5, hydrogens, radical electrons,
    hybridisation, aromatic, in a ring. Bonds: type, stereo, conjugated.
    """
    chirality = _codes().chirality
    return _described(molecule, lambda atom: chirality.get(atom.GetChiralTag(), len(_CHIRALITY)))


def molecule_graph(molecule: Mol) -> MoleculeGraph:
    """Returns the graph of :func:`ogb_graph` with order-free chirality: none, R, S or other.

    The same molecule has the same graph, up to the order of its atoms, however its SMILES is
    written. "Other" are centres without a CIP label, such as those of cis-1,4-cyclohexanediol.
    """
    return _described(molecule, _cip)


def _cip(atom: Atom) -> int:
    if atom.HasProp("_CIPCode"):
        return _place(_CIP, atom.GetProp("_CIPCode"))
    return len(_CIP) if atom.GetChiralTag() else 0


def _described(molecule: Mol, chirality: Callable[[Atom], int]) -> MoleculeGraph:
    hybridization, bond_type, stereo = _codes().hybridization, _codes().bond_type, _codes().stereo
    atoms: list[int] = []
    # Iterating over RDKit's sequences takes longer.
    for index in range(molecule.GetNumAtoms()):
        atom = molecule.GetAtomWithIdx(index)
        number, charge = atom.GetAtomicNum(), atom.GetFormalCharge()
        atoms += (
            number - 1 if 1 <= number <= 118 else 118,
            chirality(atom),
            min(atom.GetTotalDegree(), 11),
            charge + 5 if -5 <= charge <= 5 else 11,
            min(atom.GetTotalNumHs(), 9),
            min(atom.GetNumRadicalElectrons(), 5),
            hybridization.get(atom.GetHybridization(), len(_HYBRIDIZATION)),
            atom.GetIsAromatic(),
            atom.IsInRing(),
        )
    sources: list[int] = []
    targets: list[int] = []
    bonds: list[int] = []
    for index in range(molecule.GetNumBonds()):
        bond = molecule.GetBondWithIdx(index)
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        sources += (i, j)
        targets += (j, i)
        bonds += 2 * (
            bond_type.get(bond.GetBondType(), len(_BOND_TYPE)),
            # Newer kinds of stereo, for bonds that cannot rotate, count as unspecified.
            stereo.get(bond.GetStereo(), len(_STEREO) - 1),
            bond.GetIsConjugated(),
        )
    return MoleculeGraph(
        np.array((sources, targets), dtype=np.int64),
        np.array(atoms, dtype=np.int64).reshape(-1, len(OGB_ATOM_SIZES)),
        np.array(bonds, dtype=np.int64).reshape(-1, len(OGB_BOND_SIZES)),
    )


class _Codes(NamedTuple):
    """The categories of RDKit's values."""

    chirality: dict[Any, int]
    hybridization: dict[Any, int]
    bond_type: dict[Any, int]
    stereo: dict[Any, int]


@functools.cache
def _codes() -> _Codes:
    chem = _chem()

    def of(values: Any, known: Sequence[str]) -> dict[Any, int]:
        return {values.names[name]: place for place, name in enumerate(known)}

    return _Codes(
        of(chem.ChiralType, _CHIRALITY),
        of(chem.HybridizationType, _HYBRIDIZATION),
        of(chem.BondType, _BOND_TYPE),
        of(chem.BondStereo, _STEREO),
    )


def zinc_graph(molecule: Mol) -> MoleculeGraph:
    """Returns a graph with the words of ZINC: atoms as in the Kekulé SMILES, bonds by their type.

    Atoms that do not occur in ZINC-12k are "unknown". Bonds that are not single, double or triple,
    such as dative or zero-order bonds, count as single.
    """
    words = {word: index for index, word in enumerate(ATOM_WORDS)}
    types = [min(words.get(word, KNOWN_ATOMS), KNOWN_ATOMS) for word in zinc_words(molecule)]
    kekule = _kekulized(molecule)
    rows = []
    for bond in kekule.GetBonds():
        i, j, kind = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond.GetBondType().name
        order = BOND_WORDS.index(kind) if kind in BOND_WORDS[1:] else BOND_WORDS.index("SINGLE")
        rows += [(i, j, order), (j, i, order)]
    edges = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
    x = np.array(types, dtype=np.int64)[:, None]
    return MoleculeGraph(np.ascontiguousarray(edges[:, :2].T), x, edges[:, 2].copy())


def zinc_words(molecule: Mol) -> list[str]:
    """Returns each atom as the Kekulé SMILES writes it: element, explicit hydrogens, charge.

    The hydrogens of an atom in brackets are explicit, so "C H1" is a stereocentre.
    """
    chem = _chem()
    kekule = _kekulized(molecule)
    for atom in kekule.GetAtoms():
        atom.SetIsotope(0)  # these labels would put any atom into brackets
        atom.SetAtomMapNum(0)
    # Parse only what is written, without interpretation. The output order maps it to the atoms.
    written = chem.MolFromSmiles(chem.MolToSmiles(kekule, kekuleSmiles=True), sanitize=False)
    order = kekule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    words = [""] * molecule.GetNumAtoms()
    for place, atom in zip(order, written.GetAtoms(), strict=True):
        word = atom.GetSymbol()
        if hydrogens := atom.GetNumExplicitHs():
            word += f" H{hydrogens}"
        if charge := atom.GetFormalCharge():
            word += " +" if charge > 0 else " -"
            word += str(abs(charge)) if abs(charge) > 1 else ""
        words[place] = word
    return words


def molecule_fields(graphs: Sequence[MoleculeGraph]) -> dict[str, Any]:
    """Returns the offsets, edges and features of these molecules, for an archive."""
    long = np.dtype(np.int64)
    fields: dict[str, Field] = {
        "x": Field("node", np.concatenate([graph.x for graph in graphs]), long),
        "edge_attr": Field("edge", np.concatenate([graph.edge_attr for graph in graphs]), long),
    }
    if len(graphs[0].descriptors):
        values = np.stack([graph.descriptors for graph in graphs])
        fields["descriptors"] = Field("graph", values, values.dtype)
    return {
        "node_offsets": np.cumsum([0, *(len(graph.x) for graph in graphs)]),
        "edge_offsets": np.cumsum([0, *(graph.edge_index.shape[1] for graph in graphs)]),
        "edge_index": np.concatenate([graph.edge_index for graph in graphs], axis=1),
        "fields": fields,
    }


def molecule_archive(graphs: Sequence[MoleculeGraph], name: str) -> GraphArchive:
    """Returns an archive in memory of molecules from the featuriser ``name``."""
    return GraphArchive(**molecule_fields(graphs), meta={"featurizer": name})


def scaffold(smiles: str) -> str:
    """Returns the Bemis–Murcko scaffold: the rings and the links between them.

    The scaffold of a molecule without rings is empty.
    """
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return MurckoScaffold.MurckoScaffoldSmiles(mol=parse_smiles(smiles), includeChirality=False)


def _place(known: Sequence[str], value: str) -> int:
    return known.index(value) if value in known else len(known)


def _kekulized(molecule: Mol) -> Mol:
    chem = _chem()
    copy = chem.Mol(molecule)
    chem.Kekulize(copy, clearAromaticFlags=True)
    return copy


def _objection(smiles: str) -> str:
    """Returns the reason why RDKit rejects a SMILES."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule = _chem().MolFromSmiles(smiles, sanitize=False)
        if molecule is None:
            return "invalid SMILES"
        try:
            problems = _chem().DetectChemistryProblems(molecule)
        except RuntimeError:  # for example, an invalid element
            return "rejected by RDKit"
    return problems[0].Message() if problems else "rejected by RDKit"


def _chem() -> Any:
    try:
        from rdkit import Chem
    except ImportError:
        raise DataError(
            "molecules need RDKit: install it with  pip install 'eigenformer[chem]'"
        ) from None
    return Chem
