"""Writes a table of molecules with many of RDKit's descriptors as targets, to pretrain a model on.

    python examples/descriptor_targets.py SMILES.csv targets.csv
    eigenformer train targets.csv --target $(head -1 targets.csv | cut -d, -f2- | tr , ' ') \
      --from none --epochs 20 --batch-size 64 --training.warmup_epochs 1 --out runs/pretrained

The input needs a column ``smiles``. Connected fragments of one to eight atoms are added, so that
the model has seen small molecules, too. Descriptors that hardly vary are left out; the others are
standardised and clipped to four deviations, so that no molecule dominates.
"""

from __future__ import annotations

import csv
import sys

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors

LEFT_OUT = ("Ipc", "AvgIpc", "qed", "SPS", "BCUT")  # huge, slow, or a score of the others


def fragments(molecules: list[Chem.Mol]) -> list[str]:
    """Returns the SMILES of a fragment for every third molecule; some fragments are equal."""
    draw, found = np.random.default_rng(0), []
    for molecule in molecules[::3]:
        atoms = {int(draw.integers(molecule.GetNumAtoms()))}
        for _ in range(draw.integers(8)):
            near = {n.GetIdx() for a in atoms for n in molecule.GetAtomWithIdx(a).GetNeighbors()}
            if near - atoms:
                atoms.add(int(draw.choice(sorted(near - atoms))))
        fragment = Chem.MolFromSmiles(Chem.MolFragmentToSmiles(molecule, sorted(atoms)))
        if fragment is not None:  # parts of aromatic rings are no molecules
            found.append(Chem.MolToSmiles(fragment))
    return found


def main(source: str, out: str) -> None:
    """Reads the molecules and writes the table."""
    with open(source, encoding="utf-8", newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    if None in molecules:
        raise SystemExit(f"{source}: invalid SMILES: {smiles[molecules.index(None)]}")
    smiles += fragments(molecules)
    molecules += [Chem.MolFromSmiles(text) for text in smiles[len(molecules) :]]
    known = [(name, f) for name, f in Descriptors.descList if not name.startswith(LEFT_OUT)]
    columns = {}
    for name, function in known:
        values = np.array([function(molecule) for molecule in molecules], float)
        varied = np.mean(values != np.median(values)) >= 0.02
        if np.isfinite(values).all() and varied:
            columns[name] = ((values - values.mean()) / values.std()).clip(-4, 4)
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["smiles", *columns])
        for text, *row in zip(smiles, *columns.values(), strict=True):
            writer.writerow([text, *(f"{value:.4g}" for value in row)])


if __name__ == "__main__":
    main(*sys.argv[1:])
