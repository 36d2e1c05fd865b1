"""Functional groups by name, as ChemCoTBench (OpenMol/ChemCoTBench) counts them, in SMARTS."""

from collections.abc import Mapping
from types import MappingProxyType

_BENZENE = "[cR1]1[cR1][cR1][cR1][cR1][cR1]1"
SMARTS: Mapping[str, str] = MappingProxyType(
    {
        "benzene": _BENZENE,
        "benzene_ring": _BENZENE,
        "hydroxyl": "[OX2H]",
        "aldehyde": "[CX3H1](=O)[#6]",
        "ketone": "[#6][CX3](=O)[#6]",
        "carboxyl": "[CX3](=O)[OX2H1]",
        "ester": "[#6][CX3](=O)[OX2H0][#6]",
        "anhydride": "[CX3](=[OX1])[OX2][CX3](=[OX1])",
        "amine": "[NX3;H2,H1;!$(NC=O)]",
        "amide": "[NX3][CX3](=[OX1])[#6]",
        "nitro": "[$([NX3](=O)=O),$([NX3+](=O)[O-])][!#8]",
        "halo": "[F,Cl,Br,I]",
        "thiol": "[#16X2H]",
        "thioether": "[SX2][CX4]",
        "disulfide": "[#16X2H0][#16X2H0]",
        "sulfoxide": "[$([#16X3]=[OX1]),$([#16X3+][OX1-])]",
        "sulfone": "[$([#16X4](=[OX1])=[OX1]),$([#16X4+2]([OX1-])[OX1-])]",
        "sulfide": "[#16X2H0]",
        "nitrile": "[NX1]#[CX2]",
        "borane": "[BX3]",
    }
)
