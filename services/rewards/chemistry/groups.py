"""Counts functional groups in molecules."""

from functools import cache

from rdkit import Chem

from services.rewards.chemistry.smarts import SMARTS


def count_group(molecule: Chem.Mol, name: str) -> int:
    """How often a group of `SMARTS` occurs; sulfides are counted less the disulfides."""
    number = len(molecule.GetSubstructMatches(_pattern(name)))
    return number - count_group(molecule, "disulfide") if name == "sulfide" else number


@cache
def _pattern(name: str) -> Chem.Mol:
    return Chem.MolFromSmarts(SMARTS[name])
