"""Answers about molecules: hand-computed grades by RDKit in the runtime ``grading``."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.benchmarks import graded_by
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.rewards.graders import MetricsVariant
from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import runtimes_of
from services.evaluator.evaluation.samples import parse_sample
from services.rewards.chemistry import grader
from services.rewards.chemistry.rows import count_of, read_question
from services.rewards.factory import RewardFactory
from services.rewards.interface import RewardFailed, Sample, Score
from tests.support.runtimes import installed_runtime

BENZENE, TOLUENE, PHENOL, ETHANOL = "c1ccccc1", "Cc1ccccc1", "Oc1ccccc1", "CCO"


def row(task: str, subtask: str, gt: object = None, **meta: str) -> dict[str, Any]:
    """A row in the published schema; edits start from toluene."""
    query = "Edit it.\nInput Molecule: Cc1ccccc1\nAnswer as JSON."
    fields = {"id": "1", "query": query, "task": task, "subtask": subtask}
    return {**fields, "gt": gt, "meta": json.dumps(meta)}


def scores(
    *asked: tuple[dict[str, Any], str], metrics: MetricsVariant = "official", **settings: Any
) -> list[Score]:
    """The grades of answers to rows, by one grader; ``settings`` are the operator's."""
    environment = OperatorEnvironment(
        attempts=1, runtimes=runtimes_of(installed_runtime("grading").python), **settings
    )

    async def grade() -> list[Score]:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(environment, stack)
            found = []
            for data, answer in asked:
                benchmark = BENCHMARKS[f"chemcotbench_{data['task']}"]
                component = await factory.component(graded_by(benchmark, metrics), "grader")
                item = parse_sample(data, 0, None, benchmark)
                given = Sample.of_answer(answer, item.messages, item.gold, item.extra)
                found.append(await component.score(given))
            return found

    return asyncio.run(grade())


def said(key: str, value: object) -> str:
    return f"<think>So.</think>\n```json\n{json.dumps({key: value})}\n```"


def test_counts_have_an_absolute_error_and_none_without_a_number() -> None:
    asked = row("mol_und", "fg_count", "3")
    exact, off, none = scores(
        (asked, said("count", 3)), (asked, said("count", "5")), (asked, said("count", "many"))
    )
    assert (exact.value, exact.measures) == (1.0, {"absolute_error": 0})
    assert (off.value, off.measures) == (0.0, {"absolute_error": 2})
    assert (none.value, none.measures, none.extracted) == (0.0, {}, None)
    assert off.group == "mol_und/fg_count"


def test_the_fork_takes_an_answer_without_a_number_for_zero() -> None:
    asked = row("mol_und", "fg_count", "3")
    off, none = scores((asked, said("count", "5")), (asked, "three"), metrics="fork")
    assert (off.value, off.measures) == (0.0, {"absolute_error": 2})
    assert (none.value, none.measures, none.extracted) == (0.0, {"absolute_error": 3}, None)


def test_the_fork_measures_plain_logp() -> None:
    asked = {**row("mol_opt", "logp"), "query": "Source Molecule: C"}
    (found,) = scores((asked, said("Final Target Molecule", "CC")), metrics="fork")
    # Crippen: the carbon and hydrogens of CH4 are C1 and H1, those of CH3 the same.
    carbon, hydrogen = 0.1441, 0.1230
    gain = (2 * carbon + 6 * hydrogen) - (carbon + 4 * hydrogen)
    assert found.measures["improvement"] == pytest.approx(gain, abs=1e-3)


def test_the_scaffolds_of_both_molecules_are_compared() -> None:
    asked = row("mol_und", "Murcko_scaffold", BENZENE)
    pyridine, ethanol = "c1ccncc1", "CCO"
    same, equal, other, none, invalid = scores(
        (asked, said("Output Scaffold", "C1=CC=CC=C1")),
        (asked, said("Output Scaffold", TOLUENE)),  # its scaffold is benzene
        (asked, said("Output Scaffold", pyridine)),
        (asked, said("Output Scaffold", ethanol)),
        (asked, said("Output Scaffold", "c1cccc")),
    )
    assert same.measures == equal.measures == {"similarity": 1.0, "valid": 1.0}
    # Benzene has one environment of radius 0, 1 and 2 each. Pyridine has two of radius 0, one of
    # them benzene's, and so on: its atoms of meta and para position have benzene's of radius 1.
    assert 0.0 < other.measures["similarity"] < 1.0
    assert none.measures == {"similarity": 0.0, "valid": 1.0}
    assert invalid.measures == {"valid": 0.0}


@pytest.mark.parametrize("subtask", ["ring_system_scaffold", "mutated", "permutated"])
def test_yes_and_no_are_compared_without_case(subtask: str) -> None:
    asked = row("mol_und", subtask, "Yes")
    right, wrong, none = scores(
        (asked, said("output", "yes")), (asked, said("output", "No")), (asked, "Yes")
    )
    assert [each.measures for each in (right, wrong, none)] == [
        {"accuracy": 1.0},
        {"accuracy": 0.0},
        {"accuracy": 0.0},
    ]


def test_edits_change_the_number_of_groups_by_exactly_one() -> None:
    add = row("mol_edit", "add", added_group="hydroxyl")
    delete = row("mol_edit", "delete", removed_group="benzene")
    substitute = row("mol_edit", "sub", added_group="hydroxyl", removed_group="benzene_ring")
    cresol, catechol = "Cc1ccccc1O", "Cc1cccc(O)c1O"
    values = [
        (add, cresol, {"correct_rate": 1.0, "valid": 1.0}),
        (add, catechol, {"correct_rate": 0.0, "valid": 1.0}),
        (add, "Cc1ccccc1(", {"valid": 0.0}),
        (delete, "C", {"correct_rate": 1.0, "valid": 1.0}),
        (delete, cresol, {"correct_rate": 0.0, "valid": 1.0}),
        (substitute, "CO", {"correct_rate": 1.0, "valid": 1.0}),
        (substitute, cresol, {"correct_rate": 0.0, "valid": 1.0}),
    ]
    found = scores(*((asked, said("output", smiles)) for asked, smiles, _ in values))
    assert [each.measures for each in found] == [measures for *_, measures in values]


def test_sulfides_are_counted_without_disulfides() -> None:
    asked = row("mol_edit", "add", added_group="sulfide")
    (disulfide, sulfide) = scores(
        (asked, said("output", "CSSc1ccccc1")), (asked, said("output", "CSCc1ccccc1"))
    )
    # Two sulfur atoms less one disulfide are one as well.
    assert [disulfide.value, sulfide.value] == [1.0, 1.0]


def test_an_answer_that_takes_too_long_is_no_molecule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grader, "SECONDS", 0.0)
    (late,) = scores((row("mol_und", "Murcko_scaffold", BENZENE), said("Output Scaffold", BENZENE)))
    assert late.measures == {"valid": 0.0}


def test_a_gold_that_is_no_molecule_is_an_error_of_the_row() -> None:
    with pytest.raises(RewardFailed, match="the row's gold is not SMILES: 'c1cc'"):
        scores((row("mol_und", "Murcko_scaffold", "c1cc"), said("Output Scaffold", ETHANOL)))


def test_without_the_runtime_the_error_says_how_to_install_it() -> None:
    async def grade() -> None:
        async with AsyncExitStack() as stack:
            asked = BENCHMARKS["chemcotbench_mol_und"].grader
            await RewardFactory(OperatorEnvironment(), stack).component(asked, "grader")

    with pytest.raises(InvalidRequest, match=r"install\.py grading"):
        asyncio.run(grade())


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (row("mol_edit", "add", added_group="hydroxyl"), "task"),
        (row("mol_und", "colors", "1"), "subtask"),
        (row("mol_und", "fg_count", "few"), "gt"),
        (row("mol_und", "Murcko_scaffold"), "gt"),
    ],
)
def test_rows_that_ask_nothing_name_the_field(data: dict[str, Any], field: str) -> None:
    settings: Any = BENCHMARKS["chemcotbench_mol_und"].grader
    with pytest.raises(InvalidRequest) as raised:
        read_question(data, settings)
    assert raised.value.param == field


def test_edits_need_known_groups_and_a_source() -> None:
    settings: Any = BENCHMARKS["chemcotbench_mol_edit"].grader
    with pytest.raises(InvalidRequest, match="not a functional group") as raised:
        read_question(row("mol_edit", "add", added_group="wings"), settings)
    assert raised.value.param == "meta.added_group"
    with pytest.raises(InvalidRequest, match="no molecule behind"):
        read_question(
            {**row("mol_edit", "add", added_group="amine"), "query": "Edit it."}, settings
        )


@pytest.mark.parametrize(("text", "number"), [("2", 2), (" 2.0", 2), ("2.5", None), ("two", None)])
def test_counts_are_whole_numbers(text: str, number: int | None) -> None:
    assert count_of(text) == number
