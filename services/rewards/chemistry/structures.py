"""Molecules from SMILES, their similarity, scaffolds, and edits of functional groups."""

from functools import cache

from rdkit import Chem, DataStructs
from rdkit.Chem import MACCSkeys, rdFingerprintGenerator
from rdkit.Chem.Scaffolds import MurckoScaffold

from services.rewards.chemistry.smarts import SMARTS

RADIUS, BITS = 2, 1024
_MORGAN = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)


def molecule_of(smiles: str) -> Chem.Mol | None:
    """The molecule; None unless the text is SMILES of at least one atom."""
    molecule = Chem.MolFromSmiles(smiles.strip())
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def canonical_smiles(molecule: Chem.Mol) -> str:
    """The SMILES that all writings of a molecule share."""
    return str(Chem.MolToSmiles(molecule))


def morgan_similarity(first: Chem.Mol, second: Chem.Mol) -> float:
    """Tanimoto similarity of Morgan fingerprints: radius 2, 1,024 bits."""
    return float(
        DataStructs.TanimotoSimilarity(
            _MORGAN.GetFingerprint(first), _MORGAN.GetFingerprint(second)
        )
    )


def is_same(first: Chem.Mol, second: Chem.Mol) -> bool:
    """Whether the InChI is the same; without one, the canonical SMILES."""
    names = [Chem.MolToInchi(each) for each in (first, second)]
    if not all(names):
        names = [Chem.MolToSmiles(each) for each in (first, second)]
    return bool(names[0] == names[1])


def similarities(first: Chem.Mol, second: Chem.Mol) -> tuple[float, float, float]:
    """Tanimoto similarities of RDKit's topological fingerprints, MACCS keys and Morgan
    fingerprints; two molecules without features are equal."""
    fingerprints = (Chem.RDKFingerprint, MACCSkeys.GenMACCSKeys, _MORGAN.GetFingerprint)
    rdk, maccs, morgan = (_tanimoto(take(first), take(second)) for take in fingerprints)
    return rdk, maccs, morgan


def _tanimoto(first: DataStructs.ExplicitBitVect, second: DataStructs.ExplicitBitVect) -> float:
    return 1.0 if first == second else float(DataStructs.TanimotoSimilarity(first, second))


def scaffold_kept(source: Chem.Mol, target: Chem.Mol) -> tuple[float, float]:
    """Whether the Murcko scaffolds (G. W. Bemis and M. A. Murcko, 1996) are equal, 0 or 1, and
    their similarity; molecules without rings have no scaffold, which is equal to none."""
    first, second = (MurckoScaffold.GetScaffoldForMol(each) for each in (source, target))
    if Chem.MolToSmiles(first) == Chem.MolToSmiles(second):
        return 1.0, 1.0
    # Fingerprints of nothing have no similarity.
    if not (first.GetNumAtoms() and second.GetNumAtoms()):
        return 0.0, 0.0
    return 0.0, morgan_similarity(first, second)


def is_edited(source: Chem.Mol, target: Chem.Mol, added: str | None, removed: str | None) -> bool:
    """Whether there is exactly one more of the added group and one less of the removed one."""
    changes = [(added, 1), (removed, -1)]
    return all(
        count_group(target, name) - count_group(source, name) == change
        for name, change in changes
        if name is not None
    )


def count_group(molecule: Chem.Mol, name: str) -> int:
    """Number of occurrences of a group of `SMARTS`; disulfides do not count as sulfides."""
    number = len(molecule.GetSubstructMatches(_pattern(name)))
    return number - count_group(molecule, "disulfide") if name == "sulfide" else number


@cache
def _pattern(name: str) -> Chem.Mol:
    return Chem.MolFromSmarts(SMARTS[name])
