"""OpenAI's graders in evaluations: scores, thresholds, and failures to grade."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter

from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.rewards.rewards import EvaluationGrader
from services.contracts.sampling import JsonPrediction
from services.core.operator_environment import OperatorEnvironment
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.generation import Grading
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.totals import RunningTotals
from services.evaluator.failures import RequestFailure
from services.rewards.factory import RewardFactory
from services.rewards.families import subtask_of
from services.rewards.interface import RewardFailed, Score
from tests.unit.evaluator.chat_server import ChatServer, Reply

_GRADER: TypeAdapter[Any] = TypeAdapter(EvaluationGrader)
SAMPLE = EvaluationSample(
    0, ({"role": "user", "content": "Capital?"},), ("Paris",), {"reference": "Paris"}
)
TEXT = {"input": "{{ sample.output_text }}", "reference": "{{ item.reference }}", "name": "g"}
CHECK = {"type": "string_check", "operation": "eq", **TEXT}
ALIKE = {"type": "text_similarity", "evaluation_metric": "fuzzy_match", **TEXT}


def grade(
    grader: dict[str, Any],
    text: str,
    pass_threshold: float = 1.0,
    environment: OperatorEnvironment | None = None,
    *,
    keep: bool = False,
    path: str | None = None,
) -> ResultRow:
    async def run() -> ResultRow:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(environment or OperatorEnvironment(attempts=1), stack)
            component = await factory.component(_GRADER.validate_python(grader), "grader")
            answer = Answer(text, "stop", 1, 1, 1, 0.1)
            prediction = JsonPrediction(path=path) if path is not None else None
            grading = Grading(component, pass_threshold, keep_reasoning=keep, prediction=prediction)
            return await grading.row(SAMPLE, answer)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("grader", "text", "score"),
    [
        (CHECK, "Paris", 1.0),
        (CHECK, "Lyon", 0.0),
        (CHECK | {"reference": "{{ item.gold }}"}, "Paris", 1.0),
        (ALIKE, "Pariz", 0.8),
        (
            {
                "type": "multi",
                "name": "m",
                "graders": {"check": CHECK, "alike": ALIKE},
                "calculate_output": "check + alike / 2",
            },
            "Pariz",
            0.4,
        ),
    ],
)
def test_openai_graders_score_answers(grader: dict[str, Any], text: str, score: float) -> None:
    row = grade(grader, text)

    assert row.score == pytest.approx(score)
    assert row.correct is (row.score == 1.0)


def test_a_score_at_the_threshold_is_correct() -> None:
    assert grade(ALIKE, "Pariz", 0.8).correct
    assert not grade(ALIKE, "Pariz", 0.81).correct


def test_a_score_model_grades_answers() -> None:
    grader = {
        "type": "score_model",
        "name": "s",
        "input": [{"role": "user", "content": "Grade {{ sample.output_text }}"}],
        "range": [0, 10],
    }
    with ChatServer(lambda *_: Reply('{"steps": [], "result": 7}')) as server:
        model = {"base_url": server.url, "model": "judge"}
        row = grade(grader | {"model": model}, "Paris", 7.0)

    assert (row.score, row.correct) == (7.0, True)


def test_an_ungradable_answer_has_an_error_and_no_grade() -> None:
    row = grade(CHECK | {"reference": "{{ item.absent }}"}, "Paris")

    assert (row.answer, row.score, row.correct) == ("Paris", None, None)
    assert row.error is not None
    assert "item.absent" in row.error


@pytest.mark.parametrize("grader", [{"type": "exact"}, CHECK, {"type": "numeric"}])
@pytest.mark.parametrize(
    "text", ["<think>Perhaps 5, or Lyon.</think>\n\n{}", "5, no, Lyon</think>{}", "{}"]
)
def test_graders_see_the_text_after_the_reasoning(grader: dict[str, Any], text: str) -> None:
    gold = "4" if grader["type"] == "numeric" else "Paris"
    sample = EvaluationSample(0, SAMPLE.messages, (gold,), SAMPLE.extra)

    async def run() -> ResultRow:
        async with AsyncExitStack() as stack:
            component = await RewardFactory(OperatorEnvironment(), stack).component(
                _GRADER.validate_python(grader), "grader"
            )
            answer = Answer(text.replace("{}", gold), "stop", 1, 1, 1, 0.1)
            return await Grading(component, 1.0).row(sample, answer)

    row = asyncio.run(run())
    assert row.correct
    assert row.answer == text.replace("{}", gold)


def test_kept_reasoning_is_graded() -> None:
    whole = grade({"type": "regex", "pattern": "Paris"}, "<think>Paris</think>Lyon", keep=True)
    answer = grade({"type": "regex", "pattern": "Paris"}, "<think>Paris</think>Lyon")

    assert (whole.correct, answer.correct) == (True, False)


def test_unterminated_reasoning_is_not_an_answer() -> None:
    assert not grade({"type": "regex", "pattern": "Paris"}, "<think>It may be Paris").correct


def test_the_default_passing_score_is_the_highest_score() -> None:
    model = {"type": "score_model", "name": "s", "model": "m", "range": [1, 5]}
    model["input"] = [{"role": "user", "content": "x"}]
    body = {"model": "base", "file": "file-1"}

    assert CreateEvaluation.model_validate(body).passing_score == 1.0
    assert CreateEvaluation.model_validate(body | {"grader": model}).passing_score == 5.0
    graded = CreateEvaluation.model_validate(body | {"grader": model, "pass_threshold": 3})
    assert graded.passing_score == 3.0


def test_several_samples_of_an_item_need_a_temperature() -> None:
    body = {"model": "base", "file": "file-1", "samples_per_item": 4}

    with pytest.raises(ValueError, match=r"sampling\.temperature"):
        CreateEvaluation.model_validate(body)
    accepted = CreateEvaluation.model_validate(body | {"sampling": {"temperature": 0.7}})
    assert accepted.samples_per_item == 4


def test_a_sample_that_cannot_be_graded_counts_as_the_worst_score() -> None:
    totals = RunningTotals()
    totals.add(grade(ALIKE, "Pariz"))
    totals.add(grade(CHECK, "Paris"))
    totals.add(grade(CHECK | {"reference": "{{ item.absent }}"}, "Paris"))

    metrics = totals.metrics()
    assert metrics.mean_score == pytest.approx(0.6)
    assert metrics.accuracy == pytest.approx(1 / 3)
    assert metrics.errors == 1


FENCED = '<think>{"label": "Lyon"}</think>\n```json\n{"label": "Paris"}\n```'


@pytest.mark.parametrize(
    ("text", "path", "correct", "parsing"),
    [
        (
            '<think>{"label": "Lyon"}</think>\n```json\n{"label": "Paris"}\n```',
            "label",
            True,
            "parsed",
        ),
        ('It is {"city": {"names": ["Lyon", "Paris"]}}.', "city.names.1", True, "parsed"),
        ('{"label": "Lyon"}', "label", False, "parsed"),
        ('{"city": "Paris"}', "label", False, "parsed"),
        ("Paris", "label", False, "no_json"),
        ('{"label": Paris}', "label", False, "invalid_json"),
    ],
)
def test_a_prediction_is_read_from_json(text: str, path: str, correct: bool, parsing: str) -> None:
    row = grade(CHECK, text, path=path)

    assert (row.correct, row.parsing, row.error) == (correct, parsing, None)
    assert row.answer == text


def test_other_values_than_text_are_graded_as_json() -> None:
    row = grade(CHECK | {"reference": "[1, 2]"}, '{"label": [1, 2]}', path="label")

    assert row.correct


def test_outcomes_of_parsing_are_counted() -> None:
    totals = RunningTotals()
    for text in ('{"label": "Paris"}', "Paris", "Lyon"):
        totals.add(grade(CHECK, text, path="label"))

    metrics = totals.metrics()

    assert metrics.parsing == {"parsed": 1, "no_json": 2}
    assert (metrics.correct, metrics.errors) == (1, 0)


def test_a_row_has_its_prompt_and_its_tags_with_and_without_an_answer() -> None:
    asked = replace(SAMPLE, tags=("geography",))

    async def rows() -> list[ResultRow]:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(OperatorEnvironment(attempts=1), stack)
            grading = Grading(await factory.component(_GRADER.validate_python(CHECK), "grader"), 1)
            answer = Answer("Paris", "stop", 1, 1, 1, 0.1)
            failed = Unanswered(RequestFailure(503, "busy"), attempts=3)
            return [await grading.row(asked, answer), grading.unanswered_row(asked, failed)]

    assert [(row.prompt, row.tags) for row in asyncio.run(rows())] == [
        ("Capital?", ["geography"])
    ] * 2


@pytest.mark.parametrize(
    ("grader", "fields", "subtask"),
    [
        (
            {"type": "chemistry", "tasks": ["mol_opt"]},
            {"task": "mol_opt", "subtask": "qed", "query": "Source Molecule: C"},
            "mol_opt/qed",
        ),
        ({"type": "panorama", "task": "pi4pc"}, {}, "pi4pc"),
        (
            {"type": "function_calls", "expects": "no_calls"},
            {"id": "irrelevance_3", "function": [{"name": "f", "parameters": {"properties": {}}}]},
            "irrelevance",
        ),
        (CHECK, {}, None),
    ],
)
def test_a_sample_without_an_answer_is_one_of_its_subtask(
    grader: dict[str, Any], fields: dict[str, Any], subtask: str | None
) -> None:
    async def never(sample: object) -> Score:
        raise RewardFailed("not graded")

    reward = _GRADER.validate_python(grader)
    grading = Grading(
        SimpleNamespace(score=never), 1, subtask_of=partial(subtask_of, reward, "grader")
    )
    asked = replace(SAMPLE, extra=fields)
    answer = Answer("Paris", "stop", 1, 1, 1, 0.1)
    failed = Unanswered(RequestFailure(503, "busy"), attempts=3)

    assert asyncio.run(grading.row(asked, answer)).group == subtask
    assert grading.unanswered_row(asked, failed).group == subtask


def test_where_lower_scores_are_better_a_low_one_passes_and_a_missing_value_never_does() -> None:
    async def run(text: str) -> ResultRow:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(OperatorEnvironment(attempts=1), stack)
            component = await factory.component(_GRADER.validate_python(ALIKE), "grader")
            prediction = JsonPrediction(path="label")
            grading = Grading(component, 0.5, prediction=prediction, lower_is_better=True)
            return await grading.row(SAMPLE, Answer(text, "stop", 1, 1, 1, 0.1))

    rows = [
        asyncio.run(run(text)) for text in ('{"label": "xyz"}', '{"label": "Paris"}', "no JSON")
    ]
    assert [(row.score, row.correct) for row in rows] == [(0.0, True), (1.0, False), (None, None)]
    assert rows[2].error == "the answer has no value at prediction.path"
