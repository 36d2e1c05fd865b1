"""Evaluation files: samples, and field paths in errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.rewards.graders import ExactGrader, NumericGrader
from services.datasets.record import RowError, UnreadableFile
from services.datasets.scan import Scan
from services.evaluator.evaluation.overlap import questions_of
from services.evaluator.evaluation.samples import EvaluationSample, parse_sample, read_samples
from services.metrics.contamination import find_contamination
from services.rewards.graders.gold import matcher

EXACT = matcher(ExactGrader())
NUMERIC = matcher(NumericGrader())


def write(path: Path, rows: list[Any]) -> Path:
    """Write rows as JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_samples_are_read_in_order(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    rows = [
        {"prompt": "1+1?", "gold": 2, "id": "a", "tags": ["x"]},
        {"messages": messages, "gold": ["2", 2.5]},
    ]
    user = {"role": "user", "content": "1+1?"}
    assert list(read_samples(write(tmp_path / "f", rows))) == [
        EvaluationSample(0, (user,), ("2",), {"id": "a", "tags": ["x"]}, tags=("x",)),
        EvaluationSample(1, tuple(messages), ("2", "2.5"), {}),
    ]


def questions(name: str, *rows: Any) -> list[str]:
    """What is looked for in training files."""
    benchmark = BENCHMARKS[name]
    return questions_of(parse_sample(row, index, None, benchmark) for index, row in enumerate(rows))


def test_training_files_are_searched_for_questions_without_prompt_and_options() -> None:
    quiz = [{"question": f"Who wrote {n}?", "answer": {"aliases": ["x"]}} for n in ("Emma", "Dune")]
    options = {"choices": ["Lima", "Rome", "Oslo", "Bern"], "answer": 0}
    capitals = [{"question": f"What is the capital of {n}?", **options} for n in ("Peru", "Chad")]
    words = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}]]
    call = {"question": words, "function": [], "id": "simple_1"}

    assert questions("triviaqa", *quiz) == ["Who wrote Emma?", "Who wrote Dune?"]
    assert questions("mmlu", *capitals) == [each["question"] for each in capitals]
    assert questions("bfcl_simple", call) == ["Is it so?"]
    report = find_contamination(questions("mmlu", *capitals), [f"Q: {capitals[1]['question']}"])
    assert [each.item for each in report.found] == [1]


def test_the_prompt_of_a_benchmark_is_no_item_of_it() -> None:
    problems = [{"problem": f"Find the remainder of {n} and 7.", "answer": "5"} for n in range(10)]
    asked = BENCHMARKS["aime24"].prompt.replace("{question}", "What is the area of a circle?")

    assert not find_contamination(questions("aime24", *problems), [asked]).found


def test_items_that_ask_the_same_are_told_apart_by_their_options() -> None:
    rows = [
        {"question": "Which is true?", "choices": [*options, "Oslo", "Bern"], "answer": 0}
        for options in (("Lima", "Rome"), ("Ulm", "Bonn"))
    ]
    first, second = questions("mmlu", *rows)

    assert first == "Which is true?\nA. Lima\nB. Rome\nC. Oslo\nD. Bern"
    assert not find_contamination([first, second], ["Which is true? It is hard to say."]).found
    assert len(find_contamination([first, second], [f"Now: {second}"]).found) == 1


def test_of_a_conversation_what_users_say_is_searched_for() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    rows = [{"messages": messages, "gold": "2"}, {"prompt": "Why?", "gold": "x"}]

    assert questions_of(parse_sample(row, 0) for row in rows) == ["1+1?", "Why?"]


def test_null_keys_are_dropped_from_messages() -> None:
    message = {"role": "user", "content": "a", "name": None, "tool_calls": None}
    sample = parse_sample({"messages": [message], "prompt": None, "gold": "b"}, 0)
    assert sample.messages == ({"role": "user", "content": "a"},)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "is a list, not an object"),
        ({"gold": "x"}, "messages is missing (or prompt, question or problem"),
        ({"prompt": "a", "messages": [], "gold": "x"}, "has both messages and prompt"),
        ({"prompt": 3, "gold": "x"}, "prompt is 3, not a string"),
        ({"prompt": " ", "gold": "x"}, "prompt is empty"),
        ({"messages": [{"role": "user"}], "gold": "x"}, "messages[0].content is missing"),
        (
            {"messages": [{"role": "assistant", "content": "a"}], "gold": "x"},
            "messages[0].role is 'assistant'; the last message is one for it to answer",
        ),
        ({"prompt": "a"}, "gold is missing"),
        ({"prompt": "a", "gold": []}, "gold is an empty list"),
        ({"prompt": "a", "gold": True}, "gold is true, not a string or a number"),
        ({"prompt": "a", "gold": ["x", None]}, "gold[1] is null, not a string or a number"),
        ({"prompt": "a", "gold": "a\0"}, "gold holds the character U+0000"),
    ],
)
def test_an_error_names_the_path(row: Any, message: str) -> None:
    with pytest.raises(RowError) as caught:
        parse_sample(row, 0, EXACT)
    assert caught.value.message.startswith(message)


def test_every_gold_must_be_usable_by_the_grader() -> None:
    parse_sample({"prompt": "a", "gold": ["1,234", 5]}, 0, NUMERIC)
    with pytest.raises(RowError, match=r"gold\[1\]: the gold 'many' contains no number"):
        parse_sample({"prompt": "a", "gold": ["1", "many"]}, 0, NUMERIC)


def test_graders_with_templates_need_no_gold() -> None:
    assert parse_sample({"prompt": "a", "reference": "b"}, 0).extra == {"reference": "b"}


def test_reading_an_invalid_file_raises_a_typed_error(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [{"prompt": "a", "gold": "b"}, {"prompt": "a"}])
    with pytest.raises(UnreadableFile, match="row 2: gold is missing"):
        list(read_samples(path, EXACT))


def test_a_scan_reports_row_errors(tmp_path: Path) -> None:
    path = write(tmp_path / "f", [{"prompt": "a", "gold": [1, 2]}, {"prompt": "a", "gold": "x"}])
    scan = Scan(path, lambda row: parse_sample(row, 0, NUMERIC), max_errors=20, progress=print)
    assert [len(sample.gold) for sample in scan] == [2]
    assert [str(problem) for problem in scan.report.errors] == [
        "row 2: gold: the gold 'x' contains no number"
    ]


def test_rows_of_published_evaluations_are_accepted() -> None:
    worked = {"question": "q", "answer": "48 / 2 = 24\n#### 24"}
    assert parse_sample(worked, 0, NUMERIC).gold == ("24",)
    math = {"problem": "q", "solution": "s", "answer": "24"}
    assert parse_sample(math, 0, NUMERIC).messages == ({"role": "user", "content": "q"},)
    verl = {"prompt": [{"role": "user", "content": "q"}], "reward_model": {"ground_truth": 24}}
    assert parse_sample(verl, 0, NUMERIC).gold == ("24",)


@pytest.mark.parametrize(
    ("fields", "tags"),
    [
        ({}, ()),
        ({"tag": "algebra"}, ("algebra",)),
        ({"tag": "hard", "tags": ["algebra", "hard", 3, None]}, ("hard", "algebra")),
        ({"tags": {"level": "hard"}}, ()),
    ],
)
def test_tags_are_the_texts_of_a_row_that_name_its_kind(
    fields: dict[str, Any], tags: tuple[str, ...]
) -> None:
    assert parse_sample({"prompt": "?", "gold": 1, **fields}, 0).tags == tags


def test_the_sub_task_of_a_benchmark_is_a_tag_of_its_rows() -> None:
    row = {"query": "?", "gt": "1", "task": "mol_und", "subtask": "fg_count", "meta": "{}"}
    assert parse_sample(row, 0, None, BENCHMARKS["chemcotbench"]).tags == ("mol_und", "fg_count")


def test_a_prompt_has_the_roles_of_its_messages_only_if_there_are_several() -> None:
    system = {"role": "system", "content": "Add."}
    user = {"role": "user", "content": [{"type": "text", "text": "1+1="}]}
    assert parse_sample({"prompt": "1+1=", "gold": 2}, 0).prompt(100) == "1+1="
    several = parse_sample({"messages": [system, user], "gold": 2}, 0)
    assert several.prompt(100) == "system: Add.\n\nuser: 1+1="
    assert several.prompt(9) == "system: A"
