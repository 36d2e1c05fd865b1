"""Properties of molecules that ChemCoTBench's mol_opt asks to raise.

Penalized logP is R. Gómez-Bombarelli et al.'s (2018, arXiv 1610.02415), each term standardized by
the means and deviations of ZINC that the benchmark uses; solubility is J. S. Delaney's ESOL (2004),
refitted to RDKit's descriptors; QED is G. R. Bickerton et al.'s (2012).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import networkx
from rdkit import Chem
from rdkit.Chem import QED, Crippen, Descriptors, rdMolDescriptors
from rdkit.Contrib.SA_Score import sascorer

LARGEST_FREE_CYCLE = 6
"""Ring size up to which penalized logP has no ring penalty."""


def penalized_logp(molecule: Chem.Mol) -> float:
    """Standardized MolLogP, less the standardized synthetic accessibility and cycle length."""
    logp = (Crippen.MolLogP(molecule) - 2.4570953396190123) / 1.434324401111988
    ease = (-sascorer.calculateScore(molecule) + 3.0525811293166134) / 0.8335207024513095
    excess = max(0, largest_cycle(molecule) - LARGEST_FREE_CYCLE)
    cycle = (-excess + 0.0485696876403053) / 0.2860212110245455
    return float(logp + ease + cycle)


def plain_logp(molecule: Chem.Mol) -> float:
    """MolLogP, unmodified."""
    return float(Crippen.MolLogP(molecule))


def largest_cycle(molecule: Chem.Mol) -> int:
    """Size of the largest ring of networkx's cycle basis; 0 without a ring."""
    graph = networkx.from_numpy_array(Chem.GetAdjacencyMatrix(molecule))
    return max(map(len, networkx.cycle_basis(graph)), default=0)


def solubility(molecule: Chem.Mol) -> float:
    """ESOL: the logarithm to base 10 of the solubility in water, in mol/l."""
    aromatic = sum(atom.GetIsAromatic() for atom in molecule.GetAtoms())
    return float(
        0.26121066137801696
        - 0.0066138847738667125 * Descriptors.MolWt(molecule)
        - 0.7416739523408995 * Crippen.MolLogP(molecule)
        + 0.003451545565957996 * rdMolDescriptors.CalcNumRotatableBonds(molecule)
        - 0.42624840441316975 * aromatic / max(1, molecule.GetNumHeavyAtoms())
    )


def qed(molecule: Chem.Mol) -> float:
    """The quantitative estimate of drug-likeness, from 0 to 1."""
    return float(QED.qed(molecule))


PROPERTIES: Mapping[str, Callable[[Chem.Mol], float]] = MappingProxyType(
    {"logp": penalized_logp, "plain_logp": plain_logp, "solubility": solubility, "qed": qed}
)
"""By sub-task; ``plain_logp`` is a second measure for ``logp``."""
