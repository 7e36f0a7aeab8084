"""Writes molecules.csv and new.csv: molecules put together from parts, with RDKit's computed logP.

The target is a formula (Crippen's atom contributions), so that everybody can check a prediction.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from rdkit import Chem
from rdkit.Chem import Crippen

CORES = [
    *("c1ccccc1{}", "c1ccc({})cc1", "c1ccncc1{}", "C1CCCCC1{}", "C1CCNC1{}", "c1ccsc1{}"),
    *("CC{}", "CCC{}", "CC(C){}", "CCCC{}", "CC(C)(C){}", "CCOC{}", "CNC{}", "C=CC{}"),
]
LINKS = ["", "C", "CC", "O", "N", "C(=O)", "C(=O)N", "OC"]
ENDS = ["C", "O", "N", "F", "Cl", "C(=O)O", "C#N", "c1ccccc1", "C(F)(F)F", "CO"]
HERE = Path(__file__).parent


def molecules() -> list[str]:
    """Every core with every link and end that makes a molecule, once each."""
    found = {}
    for core in CORES:
        for link in LINKS:
            for end in ENDS:
                molecule = Chem.MolFromSmiles(core.format(link + end.replace("1", "2")))
                if molecule is not None:
                    found[Chem.MolToSmiles(molecule)] = molecule
    return sorted(found)


def main() -> None:
    """Draws 400 to train on and 8 that are not among them."""
    order = np.random.default_rng(0).permutation(molecules())
    rows = [(smiles, f"{Crippen.MolLogP(Chem.MolFromSmiles(smiles)):.3f}") for smiles in order]
    for name, part in (("molecules.csv", rows[:400]), ("new.csv", rows[400:408])):
        with (HERE / name).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(["smiles", "logp"])
            writer.writerows(part)


if __name__ == "__main__":
    main()
