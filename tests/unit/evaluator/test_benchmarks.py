"""Benchmarks by name: rows in their published schemas, prompts, graders, and unknown names."""

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.contracts.evaluation.benchmarks import Benchmark
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.rewards.graders import BoxedIntegerGrader, ExactGrader, NumericGrader
from services.contracts.rewards.rewards import CodeTestsReward
from services.contracts.sandbox.programs import Language
from services.core.operator_environment import OperatorEnvironment
from services.datasets.record import RowError, UnreadableFile
from services.evaluator.evaluation.samples import (
    EvaluationSample,
    gold_check,
    parse_sample,
    read_samples,
)
from services.rewards.code_tests import read_tests
from services.rewards.factory import RewardFactory
from services.rewards.interface import Sample


def sample(row: Any, benchmark: Benchmark) -> EvaluationSample:
    return parse_sample(row, 0, gold_check(benchmark.grader), benchmark)


def graded(name: str, row: Any, answer: str) -> bool:
    asked = sample(row, BENCHMARKS[name])

    async def score() -> float:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(OperatorEnvironment(attempts=1), stack)
            grader = await factory.component(BENCHMARKS[name].grader, "grader")
            return (await grader.score(Sample.of_answer(answer, gold=asked.gold))).value

    return asyncio.run(score()) == 1.0


@pytest.mark.parametrize(
    ("name", "row", "prompt"),
    [
        (
            "aime24",
            {"id": 60, "problem": "Find {n}.", "solution": "...", "answer": "073"},
            "Find {n}.\nPlease reason step by step, and put your final answer within \\boxed{}.",
        ),
        (
            "aime25",
            {"problem": "Find n.", "answer": 73},
            "Find n.\nRemember to put your final answer within \\boxed{}.",
        ),
        ("gsm8k", {"question": "How many?", "answer": "70 + 3 = 73\n#### 73"}, "How many?"),
        (
            "math",
            {
                "problem": "Find n.",
                "solution": "$70+3=\\boxed{\\frac{146}{2}}$",
                "level": "Level 1",
            },
            "Find n.\nPlease reason step by step, and put your final answer within \\boxed{}.",
        ),
        (
            "math500",
            {"problem": "Find n.", "solution": "...", "answer": "73.0", "unique_id": "a/1.json"},
            "Find n.\nPlease reason step by step, and put your final answer within \\boxed{}.",
        ),
    ],
)
def test_published_rows_become_prompts_and_golds(name: str, row: Any, prompt: str) -> None:
    asked = sample(row, BENCHMARKS[name])
    assert asked.messages == ({"role": "user", "content": prompt},)
    assert graded(name, row, "It is \\boxed{73}")
    assert not graded(name, row, "It is \\boxed{74}")


@pytest.mark.parametrize("gold", [2, "C"])
def test_options_become_lines_with_letters(gold: object) -> None:
    row = {"question": "Capital?", "choices": ["Lyon", "Nice", "Paris", "Metz"], "answer": gold}

    text = sample(row, BENCHMARKS["mmlu"]).messages[0]["content"]

    assert text.startswith("Capital?\nA. Lyon\nB. Nice\nC. Paris\nD. Metz\n\n")
    assert graded("mmlu", row, "It is \\boxed{C}.")
    assert not graded("mmlu", row, "It is \\boxed{B}.")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "mmlu_pro",
            {"question": "Last?", "options": list("zyxwvutsrq"), "answer": "J", "answer_index": 9},
        ),
        ("hellaswag", {"ctx": "She opens", "endings": ["a", "b", "c", "d"], "label": "3"}),
    ],
)
def test_published_rows_with_options_are_graded_by_the_letter(name: str, row: Any) -> None:
    right = "J" if name == "mmlu_pro" else "D"
    assert f"\n{right}. " in sample(row, BENCHMARKS[name]).messages[0]["content"]
    assert graded(name, row, f"So \\boxed{{{right}}}")
    assert not graded(name, row, "So \\boxed{A}")


@pytest.mark.parametrize(("labels", "key"), [(list("ABCD"), "C"), (list("1234"), "3")])
def test_answers_that_name_an_option_become_its_letter(labels: list[str], key: str) -> None:
    choices = {"text": ["iron", "wood", "ice", "salt"], "label": labels}
    row = {"id": "1", "question": "Which melts?", "choices": choices, "answerKey": key}

    assert graded("arc_challenge", row, "\\boxed{C}")
    assert not graded("arc_easy", row, "\\boxed{D}")
    with pytest.raises(RowError, match=r"choices.label has no '9'"):
        sample({**row, "answerKey": "9"}, BENCHMARKS["arc_easy"])


def test_the_right_option_has_no_place_of_its_own() -> None:
    letters = []
    for number in range(30):
        wrong = {f"Incorrect Answer {each}": f"{number + each}" for each in (1, 2, 3)}
        row = {"Question": f"{number} + 0?", "Correct Answer": f"{number}", **wrong}
        text = sample(row, BENCHMARKS["gpqa"]).messages[0]["content"]
        (letter,) = re.findall(rf"^([A-D])\. {number}$", text, re.MULTILINE)
        assert sample(row, BENCHMARKS["gpqa"]).messages[0]["content"] == text
        assert graded("gpqa", row, f"\\boxed{{{letter}}}")
        letters.append(letter)
    assert set(letters) == set("ABCD")
    with pytest.raises(RowError, match="two of its options are the same"):
        sample({**row, "Incorrect Answer 2": row["Correct Answer"]}, BENCHMARKS["gpqa"])


@pytest.mark.parametrize(
    ("name", "answer"),
    [("hotpotqa", "the Arno"), ("triviaqa", {"value": "Arno", "aliases": ["The Arno", "Arno"]})],
)
def test_short_answers_are_graded_by_their_words(name: str, answer: object) -> None:
    row = {"question": "Which river?", "answer": answer}
    assert graded(name, row, "Arno")
    assert not graded(name, row, "the Po")


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": "names"},
        {"incorrect": ["b"], "choices": "c"},
        {"incorrect": ["b"], "answer": None},
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Benchmark(grader=ExactGrader(), **wrong)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (
            "humaneval",
            {
                "task_id": "HumanEval/0",
                "prompt": 'def add(a, b):\n    """Add {test}."""\n',
                "entry_point": "add",
                "canonical_solution": "    return a + b\n",
                "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
            },
        ),
        (
            "mbpp",
            {
                "task_id": 11,
                "text": "Write a function that adds two numbers to {setup}.",
                "code": "def add(a, b): ...",
                "test_list": ["assert add(1, 2) == three", "assert add(0, 0) == 0"],
                "test_setup_code": "three = 3",
                "challenge_test_list": [],
            },
        ),
    ],
)
def test_published_rows_of_programs_become_tests(name: str, row: Any) -> None:
    benchmark = BENCHMARKS[name]
    asked = sample(row, benchmark)

    (text,) = (message["content"] for message in asked.messages)
    assert row[benchmark.question] in text
    assert name == "humaneval" or "\n\nassert add(1, 2) == three\nassert add(0, 0) == 0\n" in text
    (test,) = asked.extra["tests"]
    exec(test, {"add": int.__add__})
    with pytest.raises(AssertionError):
        exec(test, {"add": int.__sub__})
    (case,) = read_tests(asked.extra["tests"], Language.PYTHON).cases
    assert case.stdin is not None
    assert json.loads(case.stdin)["test"] == test
    assert name == "mbpp" or asked.extra["setup"] == row["prompt"]


SEARCH = {"toolName": "search", "paramList": {"q": "a:b"}}


@pytest.mark.parametrize("label", [[SEARCH, SEARCH], json.dumps([SEARCH, SEARCH])])
def test_rows_of_tool_calls_are_graded_by_all_their_calls(label: Any) -> None:
    row = {"url": "u", "历史对话": [], "query": "Find a:b twice.", "label": label}

    assert sample(row, BENCHMARKS["tool_calls"]).messages[0]["content"] == "Find a:b twice."
    assert graded("tool_calls", row, f"<think>[]</think>{json.dumps({'label': [SEARCH] * 2})}")
    assert not graded("tool_calls", row, json.dumps([SEARCH]))


def test_a_row_without_calls_wants_none() -> None:
    row = {"query": "Hello", "label": []}

    assert graded("tool_calls", row, "[]")
    assert not graded("tool_calls", row, json.dumps([SEARCH]))


@pytest.mark.parametrize("label", [[{"paramList": {}}], {"calls": []}, 7, "none"])
def test_a_label_that_is_no_list_of_calls_is_refused(label: Any) -> None:
    with pytest.raises(RowError, match="gold"):
        sample({"query": "Hello", "label": label}, BENCHMARKS["tool_calls"])


def test_fields_fill_their_places_in_the_prompt() -> None:
    benchmark = Benchmark(
        prompt="{unit}: {question} {year} {other}",
        fields={"unit": "about.units", "year": "year"},
        grader=ExactGrader(),
    )
    row = {"question": "How {year}?", "about": {"units": ["m", "s"]}, "year": 1999, "answer": "x"}
    assert sample(row, benchmark).messages[0]["content"] == "m\ns: How {year}? 1999 {other}"

    spans = sample({**row, "year": {"from": 1999}}, benchmark).messages[0]["content"]
    assert spans == 'm\ns: How {year}? {"from": 1999} {other}'
    with pytest.raises(RowError) as caught:
        sample({**row, "year": True}, benchmark)
    assert caught.value.message == "year is true, not a text, a number, a list or an object"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unit": "a"}, "fields.unit has no place {unit} in prompt, tests or setup"),
        ({"question": "a"}, "fields must not name {question}"),
    ],
)
def test_a_field_without_a_place_is_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Benchmark(fields=fields, grader=ExactGrader())


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (None, "choices is missing"),
        ("a", "choices is 'a', not a list of 2 to 26 texts"),
        (["a"], "choices is a list, not a list of 2 to 26 texts"),
        (["a", 1], "choices has 1, not a text"),
    ],
)
def test_an_error_names_the_options(choices: object, message: str) -> None:
    with pytest.raises(RowError) as caught:
        sample({"question": "?", "choices": choices, "answer": 0}, BENCHMARKS["mmlu"])
    assert caught.value.message == message


def test_golds_that_no_answer_can_match_are_refused() -> None:
    with pytest.raises(RowError, match="answer: the gold 'E' is not an option from A to D"):
        sample({"question": "?", "choices": ["a", "b"], "answer": "E"}, BENCHMARKS["mmlu"])
    with pytest.raises(RowError, match="solution: the expression of the gold is empty"):
        sample({"problem": "?", "solution": "so \\boxed{ }"}, BENCHMARKS["math"])


@pytest.mark.parametrize("name", ["aime24", "aime25"])
@pytest.mark.parametrize("answer", [0, 999, "073", "204"])
def test_answers_of_aime_are_integers_of_at_most_three_digits(name: str, answer: object) -> None:
    assert sample({"problem": "?", "answer": answer}, BENCHMARKS[name]).gold == (str(answer),)


@pytest.mark.parametrize("name", ["aime24", "aime25"])
@pytest.mark.parametrize("answer", [1000, -1, "1001", "-3", "99999999999999999"])
def test_other_integers_in_rows_of_aime_are_refused(name: str, answer: object) -> None:
    with pytest.raises(RowError) as caught:
        sample({"problem": "?", "answer": answer}, BENCHMARKS[name])
    assert caught.value.message == f"answer: '{answer}' is not an integer from 0 to 999"


@pytest.mark.parametrize("answer", ["1.5", 73.0, "336^\\circ", "", "9" * 30])
def test_a_gold_of_aime_that_is_not_an_integer_is_refused(answer: object) -> None:
    with pytest.raises(RowError, match=r"answer: the gold '.*' is not an integer"):
        sample({"problem": "Find n.", "answer": answer}, BENCHMARKS["aime24"])


def test_the_row_and_the_position_of_a_wrong_answer_are_named(tmp_path: Path) -> None:
    benchmark = Benchmark(answer="golds", answer_range=(1, 6), grader=NumericGrader())
    file = tmp_path / "dice.jsonl"
    file.write_text(
        '{"question": "?", "golds": [1, 6]}\n'
        '{"question": "?", "golds": "3"}\n'
        '{"question": "?", "golds": [2, 7]}\n'
    )
    with pytest.raises(UnreadableFile) as caught:
        list(read_samples(file, gold_check(benchmark.grader), benchmark))
    assert caught.value.problem.row == 3
    assert caught.value.problem.message == "golds[1]: '7' is not an integer from 1 to 6"


def test_a_range_holds_for_graders_that_need_no_gold() -> None:
    grader = CodeTestsReward(partial=False)
    benchmark = Benchmark(answer="n", answer_range=(0, 9), grader=grader)
    assert sample({"question": "?", "n": 9}, benchmark).gold == ("9",)
    with pytest.raises(RowError, match="n: '10' is not an integer from 0 to 9"):
        sample({"question": "?", "n": 10}, benchmark)


def test_a_range_without_answers_is_refused() -> None:
    with pytest.raises(ValidationError, match="answer_range is that of answer, which is missing"):
        Benchmark(answer=None, answer_range=(0, 9), grader=NumericGrader())


def test_a_benchmark_of_a_user_names_nested_fields() -> None:
    benchmark = Benchmark(
        question="item.text", answer="item.golds", prompt="Q: {question}", grader=ExactGrader()
    )
    asked = sample({"item": {"text": "Capital?", "golds": ["Lima", "lima"]}, "tag": 1}, benchmark)
    assert asked.messages == ({"role": "user", "content": "Q: Capital?"},)
    assert asked.gold == ("Lima", "lima")
    assert asked.extra["tag"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "is a list, not an object with question"),
        ({"answer": "1"}, "question is missing"),
        ({"question": " ", "answer": "1"}, "question is empty"),
        ({"question": 3, "answer": "1"}, "question is 3, not a text"),
        ({"question": "a"}, "answer is missing"),
    ],
)
def test_an_error_names_the_field(row: Any, message: str) -> None:
    with pytest.raises(RowError) as caught:
        sample(row, BENCHMARKS["gsm8k"])
    assert caught.value.message.startswith(message)


def request(**fields: Any) -> CreateEvaluation:
    return CreateEvaluation.model_validate({"model": "m", "file": "f", **fields})


def test_a_name_sets_the_grader_and_survives_storage() -> None:
    body = request(benchmark="aime24")
    assert body.grader == BoxedIntegerGrader()
    assert CreateEvaluation.model_validate(body.model_dump(mode="json")) == body


def test_a_judge_goes_with_rules_for_integers_and_with_their_benchmark_alone() -> None:
    judge = {"base_url": "http://127.0.0.1:9/v1", "model": "judge"}
    assert request(benchmark="aime25", judge=judge).judge is not None
    with pytest.raises(ValidationError, match="judge is for aime24, aime25"):
        request(benchmark="gsm8k", judge=judge)

    several = [
        {"benchmark": "aime25", "file": "f", "judge": judge},
        {"benchmark": "gsm8k", "file": "g"},
    ]
    asked = CreateEvaluation.model_validate({"model": "m", "benchmarks": several}).by_benchmark()
    assert [each.judge is not None for each in asked.values()] == [True, False]
    with pytest.raises(ValidationError, match="give it in benchmarks"):
        CreateEvaluation.model_validate({"model": "m", "benchmarks": several, "judge": judge})


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(ValidationError, match="no benchmark 'mmlv'; there are aime24, aime25, arc"):
        request(benchmark="mmlv")


def test_a_benchmark_and_another_grader_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="benchmark sets the grader"):
        request(benchmark="gsm8k", grader={"type": "exact"})
    assert request(benchmark="gsm8k", grader={"type": "numeric"}).grader == NumericGrader()


@pytest.mark.parametrize("prompt", ["no place", "{question} {question}"])
def test_a_prompt_has_one_place_for_the_question(prompt: str) -> None:
    with pytest.raises(ValidationError, match=r"prompt must contain \{question\} once"):
        Benchmark(prompt=prompt, grader=ExactGrader())
