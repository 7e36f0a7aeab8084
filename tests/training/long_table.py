"""Writes a long table of molecules: ZINC's, varied by groups and by the order of their atoms.

``python -m tests.training.long_table ROWS zinc12k.csv.gz TABLE.csv``
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
from collections.abc import Iterator

from rdkit import Chem, RDLogger
from rdkit.Chem import Crippen

GROUPS = ["C", "F", "Cl", "OC", "C#N", "CC", "C(F)(F)F", "N(C)C", "C(=O)OC", "c1ccccc1"]


def rows(source: str, chance: random.Random) -> Iterator[tuple[str, float]]:
    """Yields SMILES and logP, each molecule in four orders of its atoms, without end."""
    with gzip.open(source, "rt") as stream:
        smiles = [row["smiles"] for row in csv.DictReader(stream)]
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    while True:
        molecule = chance.choice(molecules)
        places = [
            a.GetIdx() for a in molecule.GetAtoms() if a.GetSymbol() == "C" and a.GetTotalNumHs()
        ]
        if chance.random() < 0.7 and places:
            group = Chem.MolFromSmiles(chance.choice(GROUPS))
            joined = Chem.RWMol(Chem.CombineMols(molecule, group))
            joined.AddBond(chance.choice(places), molecule.GetNumAtoms(), Chem.BondType.SINGLE)
            if Chem.SanitizeMol(joined, catchErrors=True):
                continue
            molecule = joined.GetMol()
        logp = Crippen.MolLogP(molecule)
        for text in Chem.MolToRandomSmilesVect(molecule, 4, randomSeed=chance.randrange(1, 2**30)):
            yield text, logp


def main(count: str, source: str, out: str) -> None:
    RDLogger.DisableLog("rdApp.*")
    with open(out, "w") as stream:
        stream.write("name,smiles,logp\n")
        for number, (text, logp) in zip(
            range(int(count)), rows(source, random.Random(0)), strict=False
        ):
            stream.write(f"m{number},{text},{logp:.4f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
