"""Molecules to improve: properties against RDKit's own parts, and hand-computed improvements."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.core.process.runtimes import child_environment
from services.rewards.chemistry.rows import read_question
from services.rewards.interface import RewardFailed
from tests.support.runtimes import installed_runtime
from tests.unit.rewards.families.test_chemistry import said, scores

CYCLOOCTANE = "C1CCCCCCC1"
EXCESSES = {"CCO": 0, "Cc1ccccc1": 0, "C1CC1": 0, CYCLOOCTANE: 2, "C1CCCCCCCCCCC1": 6}
"""Atoms above 6 of the only cycle of each molecule."""
PARTS = """
import json, sys
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors
from rdkit.Chem.QED import qed
from rdkit.Contrib.SA_Score import sascorer
from services.rewards.chemistry.properties import PROPERTIES

found = {}
for smiles in sys.argv[1:]:
    molecule = Chem.MolFromSmiles(smiles)
    found[smiles] = {
        "MolLogP": Crippen.MolLogP(molecule),
        "SA": sascorer.calculateScore(molecule),
        "MolWt": Descriptors.MolWt(molecule),
        "rotatable": Descriptors.NumRotatableBonds(molecule),
        "QED": qed(molecule),
        **{name: measure(molecule) for name, measure in PROPERTIES.items()},
    }
print(json.dumps(found))
"""


@cache
def parts() -> dict[str, dict[str, float]]:
    """RDKit's descriptors and the properties of the molecules of `EXCESSES`."""
    python = installed_runtime("grading").python
    done = subprocess.run(
        [python, "-c", PARTS, *EXCESSES],
        env=child_environment({}),
        capture_output=True,
        check=True,
        timeout=120,
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def row(subtask: str, source: str) -> dict[str, Any]:
    query = f"Improve it.\nSource Molecule: {source}\nAnswer as JSON."
    fields = {"id": "1", "query": query, "gt": None, "meta": "{}"}
    return {**fields, "task": "mol_opt", "subtask": subtask}


@pytest.mark.parametrize("smiles", EXCESSES)
def test_penalized_logp_is_the_sum_of_three_standardized_parts(smiles: str) -> None:
    found = parts()[smiles]
    logp = (found["MolLogP"] - 2.4570953396190123) / 1.434324401111988
    accessibility = (found["SA"] - 3.0525811293166134) / 0.8335207024513095
    cycle = (EXCESSES[smiles] - 0.0485696876403053) / 0.2860212110245455
    assert found["logp"] == pytest.approx(logp - accessibility - cycle)


@pytest.mark.parametrize(
    ("smiles", "aromatic"), [("CCO", 0.0), ("Cc1ccccc1", 6 / 7), (CYCLOOCTANE, 0.0)]
)
def test_solubility_is_esol_of_four_descriptors(smiles: str, aromatic: float) -> None:
    found = parts()[smiles]
    assert found["solubility"] == pytest.approx(
        0.26121066137801696
        - 0.0066138847738667125 * found["MolWt"]
        - 0.7416739523408995 * found["MolLogP"]
        + 0.003451545565957996 * found["rotatable"]
        - 0.42624840441316975 * aromatic
    )
    assert found["qed"] == pytest.approx(found["QED"])


def test_an_improvement_is_the_difference_to_the_source() -> None:
    asked = row("solubility", "Cc1ccccc1")
    better, other_key, same, worse, invalid, none = scores(
        (asked, said("Final Target Molecule", "Cc1ccccc1O")),
        (asked, said("Final_Target_Molecule", "Cc1ccccc1O")),
        (asked, said("Final Target Molecule", "Cc1ccccc1")),
        (asked, said("Final Target Molecule", "Cc1ccccc1Cl")),
        (asked, said("Final Target Molecule", "c1cc")),
        (asked, "Cc1ccccc1O"),
    )
    # An oxygen weighs 15.999; the hydroxyl lowers MolLogP by 0.2944; 6 of 8 atoms are aromatic
    # instead of 6 of 7.
    change = (
        -0.0066138847738667125 * 15.999
        + 0.7416739523408995 * 0.2944
        + 0.42624840441316975 * (6 / 7 - 6 / 8)
    )
    assert better.measures == pytest.approx(
        {
            "improvement": change,
            "success": 1.0,
            "best": 0.0,
            "scaffold_same": 1.0,
            "scaffold_similarity": 1.0,
            "valid": 1.0,
        },
        abs=1e-4,
    )
    assert (better.value, better.group) == (1.0, "mol_opt/solubility")
    assert other_key == better
    assert (same.value, same.measures["improvement"], same.measures["valid"]) == (0.0, 0.0, 1.0)
    assert (worse.value, worse.measures["success"]) == (0.0, 0.0)
    assert worse.measures["improvement"] < 0
    assert set(invalid.measures.values()) == {0.0}
    assert none.measures == invalid.measures


def test_scaffolds_are_equal_similar_or_gone() -> None:
    asked = row("solubility", "Cc1ccccc1")
    key = "Final Target Molecule"
    pyridine, chain = scores((asked, said(key, "Cc1ccccn1")), (asked, said(key, "CCO")))
    assert pyridine.measures["scaffold_same"] == 0.0
    assert 0.0 < pyridine.measures["scaffold_similarity"] < 1.0
    assert chain.measures["scaffold_same"] == chain.measures["scaffold_similarity"] == 0.0
    # The chain improves by more than 0.5.
    assert chain.measures["best"] == 1.0
    (chains,) = scores((row("solubility", "CCCCO"), said(key, "CCO")))
    assert chains.measures["scaffold_same"] == chains.measures["scaffold_similarity"] == 1.0


@pytest.mark.parametrize("subtask", ["drd2", "jnk3", "gsk3b"])
def test_properties_without_a_model_have_no_score(subtask: str) -> None:
    with pytest.raises(RewardFailed, match=f"no oracle: {subtask} needs a model"):
        scores((row(subtask, "CCO"), said("Final Target Molecule", "CCO")))


def test_the_operators_function_tells_a_property(tmp_path: Path) -> None:
    (tmp_path / "oracles.py").write_text("def carbons(smiles): return smiles.count('C') / 4")
    settings: dict[str, Any] = {
        "oracles": {"drd2": "oracles.carbons"},
        "callables_folder": tmp_path,
    }
    key = "Final Target Molecule"
    better, worse, invalid = scores(
        (row("drd2", "CCO"), said(key, "CCCCO")),
        (row("drd2", "CCO"), said(key, "CO")),
        (row("drd2", "CCO"), said(key, "CC(")),
        **settings,
    )

    assert better.measures == {
        "improvement": 0.5,
        "success": 1.0,
        "best": 1.0,
        "scaffold_same": 1.0,
        "scaffold_similarity": 1.0,
        "valid": 1.0,
    }
    assert (worse.value, worse.measures["improvement"]) == (0.0, -0.25)
    assert set(invalid.measures.values()) == {0.0}


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("return None", "oracles.broken gave None, not a score"),
        ("raise ValueError('no weights')", "no weights"),
    ],
)
def test_an_oracle_that_fails_fails_the_row(tmp_path: Path, body: str, cause: str) -> None:
    (tmp_path / "oracles.py").write_text(f"def broken(smiles): {body}")
    settings: dict[str, Any] = {"oracles": {"jnk3": "oracles.broken"}, "callables_folder": tmp_path}
    with pytest.raises(RewardFailed, match=cause):
        scores((row("jnk3", "CCO"), said("Final Target Molecule", "CO")), **settings)


def test_rows_to_improve_need_a_known_property_and_a_source() -> None:
    settings: Any = BENCHMARKS["chemcotbench_mol_opt"].grader
    with pytest.raises(InvalidRequest, match="is none of logp, solubility, qed") as raised:
        read_question(row("color", "CCO"), settings)
    assert raised.value.param == "subtask"
    with pytest.raises(InvalidRequest, match="no molecule behind"):
        read_question({**row("qed", "CCO"), "query": "Improve it."}, settings)


def test_a_source_that_is_no_molecule_is_an_error_of_the_row() -> None:
    with pytest.raises(RewardFailed, match="the row's source is not SMILES: 'c1cc'"):
        scores((row("qed", "c1cc"), said("Final Target Molecule", "CCO")))
