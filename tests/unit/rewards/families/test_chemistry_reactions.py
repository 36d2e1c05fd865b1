"""Answers about reactions: hand-computed grades by RDKit in the runtime ``grading``."""

import json
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.rewards.chemistry.rows import read_question
from services.rewards.interface import RewardFailed
from tests.unit.rewards.families.test_chemistry import row, said, scores

ALIKE = {
    "exact_match": 1.0,
    "rdk_similarity": 1.0,
    "maccs_similarity": 1.0,
    "morgan_similarity": 1.0,
    "fts": 1.0,
    "valid": 1.0,
}


@pytest.mark.parametrize(
    ("subtask", "key"),
    [("fs", "Major Product"), ("retro", "Reactants"), ("nepp", "output"), ("rcr", "condition")],
)
def test_the_same_molecules_written_otherwise_are_an_exact_match(subtask: str, key: str) -> None:
    (found,) = scores((row("reaction", subtask, "CCO.CC(=O)O"), said(key, "OC(C)=O.OCC")))
    assert found.value == 1.0
    assert {name: found.measures[name] for name in ALIKE} == ALIKE
    assert found.group == f"reaction/{subtask}"


def test_another_molecule_is_as_similar_as_its_fingerprints() -> None:
    asked = row("reaction", "fs", "Cc1ccccc1")
    (found,) = scores((asked, said("Major Product", "c1ccccc1")))
    measures = dict(found.measures)
    # As for scaffolds: benzene's 3 environments are among the 11 of toluene.
    assert measures["morgan_similarity"] == pytest.approx(3 / 11)
    assert (found.value, measures["exact_match"], measures["valid"]) == (0.0, 0.0, 1.0)
    parts = [measures[f"{name}_similarity"] for name in ("rdk", "maccs", "morgan")]
    assert all(0 < part < 1 for part in parts)
    assert measures["fts"] == pytest.approx(sum(parts) / 3)
    assert measures["levenshtein"] == 1
    # All n-grams of the answer's 8 characters are in the gold, which has 9.
    assert measures["bleu"] == pytest.approx(2.718281828459045 ** (1 - 9 / 8))


@pytest.mark.parametrize("answer", [said("Reactants", "CCO("), said("Reactants", ["CCO"]), "CCO"])
def test_what_is_no_molecule_is_like_none_and_its_text_is_not_compared(answer: str) -> None:
    (found,) = scores((row("reaction", "retro", "CCO"), answer))
    assert found.measures == dict.fromkeys(ALIKE, 0.0)


def test_molecules_without_features_are_alike_only_if_they_are_the_same() -> None:
    asked = row("reaction", "rcr", "[Na+]")
    same, other = scores((asked, said("condition", "[Na+]")), (asked, said("condition", "O")))
    assert same.measures["fts"] == 1.0
    assert other.measures["exact_match"] == 0.0


def test_a_gold_in_json_says_which_product_is_asked_for() -> None:
    both = row("reaction", "fs", json.dumps({"Major Product": "CCO", "Byproduct(s)": "O"}))
    other = row("reaction", "fs", {"Byproduct(s)": "O"})
    answer = json.dumps({"Major Product": "CCO", "Byproduct(s)": "O"})
    assert [found.value for found in scores((both, answer), (other, answer))] == [1.0, 1.0]
    (swapped,) = scores((both, json.dumps({"Major Product": "O", "Byproduct(s)": "CCO"})))
    assert swapped.value == 0.0


def test_a_mechanism_is_chosen_by_its_letter() -> None:
    asked = row("reaction", "mechsel", "B")
    right, whole, wrong = scores(
        (asked, said("choice", "b")),
        (asked, said("choice", "B: by a carbocation")),
        (asked, said("choice", "C")),
    )
    assert right.measures == whole.measures == {"accuracy": 1.0}
    assert wrong.measures == {"accuracy": 0.0}


def test_one_benchmark_takes_the_rows_of_all_tasks() -> None:
    settings: Any = BENCHMARKS["chemcotbench"].grader
    rows = [
        row("mol_und", "fg_count", "1"),
        row("mol_edit", "add", added_group="hydroxyl"),
        row("mol_opt", "qed"),
        row("reaction", "nepp", "CCO"),
    ]
    assert [read_question(each, settings).task for each in rows] == list(settings.tasks)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (row("reaction", "cooking", "CCO"), "subtask"),
        (row("reaction", "fs"), "gt"),
        (row("reaction", "fs", '{"Major Product": '), "gt"),
        (row("reaction", "fs", {"Yield": "CCO"}), "gt"),
        (row("reaction", "retro", {"Reactants": ["CCO"]}), "gt"),
    ],
)
def test_rows_that_ask_nothing_name_the_field(data: dict[str, Any], field: str) -> None:
    settings: Any = BENCHMARKS["chemcotbench_reaction"].grader
    with pytest.raises(InvalidRequest) as raised:
        read_question(data, settings)
    assert raised.value.param == field


def test_a_gold_that_is_no_molecule_is_an_error_of_the_row() -> None:
    with pytest.raises(RewardFailed, match="the row's gold is not SMILES: 'ethanol!'"):
        scores((row("reaction", "retro", "ethanol!"), said("Reactants", "CCO")))
