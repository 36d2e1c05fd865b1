"""Molecules from SMILES, their similarity, and edits of functional groups."""

from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from services.rewards.chemistry.groups import count_group

RADIUS, BITS = 2, 1024
_MORGAN = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)


def molecule_of(smiles: str) -> Chem.Mol | None:
    """The molecule; None for what is not SMILES of at least one atom."""
    molecule = Chem.MolFromSmiles(smiles.strip())
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def morgan_similarity(first: Chem.Mol, second: Chem.Mol) -> float:
    """Tanimoto similarity of Morgan fingerprints: radius 2, 1,024 bits."""
    return float(
        DataStructs.TanimotoSimilarity(
            _MORGAN.GetFingerprint(first), _MORGAN.GetFingerprint(second)
        )
    )


def is_edited(source: Chem.Mol, target: Chem.Mol, added: str | None, removed: str | None) -> bool:
    """Whether the number of the added group is one more and that of the removed one less."""
    changes = [(added, 1), (removed, -1)]
    return all(
        count_group(target, name) - count_group(source, name) == change
        for name, change in changes
        if name is not None
    )
