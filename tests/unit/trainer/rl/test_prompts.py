"""Reading and drawing prompts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.artifacts import SourceFile
from services.core.process.reporter import REPORTS, RESULT
from services.datasets.record import RowError, UnreadableFile
from services.datasets.validate import SPEC, validate
from services.trainer.rl.prompts import MAX_ROWS, EpochShuffle, read_row, read_rows
from services.trainer.rl.spec import TEACHER, PromptFilesSpec, TaughtModel
from services.trainer.rl.validation import check_prompts
from tests.support.models.tokenizer_kinds import KINDS

USER = {"role": "user", "content": "q"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}},
    ],
}
REPLY = {"role": "tool", "tool_call_id": "c", "content": "4"}
ANSWER = {"role": "assistant", "content": "four"}


def test_messages_after_the_last_question_demonstrate_the_answer() -> None:
    row = read_row({"messages": [USER, ANSWER, USER, CALL, REPLY, ANSWER]}, 0, "plain")
    assert [message["role"] for message in row.prompt.messages] == ["user", "assistant", "user"]
    assert [message["role"] for message in row.answers] == ["assistant", "tool", "assistant"]


def test_question_is_answered_by_its_first_gold() -> None:
    row = read_row({"question": "2+2?", "gold": ["4", "four"]}, 0, "plain")
    assert row.answers == ({"role": "assistant", "content": "4"},)


def test_prompt_without_answer_is_valid() -> None:
    assert read_row({"messages": [USER]}, 0, "plain").answers == ()


def test_answer_without_question_is_refused() -> None:
    with pytest.raises(RowError, match="no user before it"):
        read_row({"messages": [{"role": "system", "content": "s"}, ANSWER]}, 0, "plain")


def test_bad_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"question": "q"}\n{"question": 3}\n')
    with pytest.raises(UnreadableFile, match="row 2: question"):
        read_rows(path, "plain")


@given(rows=st.integers(1, 50), seed=st.integers(0, 2**31 - 1), passes=st.integers(1, 3))
def test_every_epoch_draws_every_row_once(rows: int, seed: int, passes: int) -> None:
    order = EpochShuffle(rows, seed)
    drawn = [order.row(draw) for draw in range(rows * passes)]
    for each in range(passes):
        assert sorted(drawn[each * rows : (each + 1) * rows]) == list(range(rows))
    again = EpochShuffle(rows, seed)
    assert [again.row(draw) for draw in reversed(range(len(drawn)))] == drawn[::-1]


def test_epochs_and_seeds_have_different_orders() -> None:
    one, other = EpochShuffle(100, 1), EpochShuffle(100, 2)
    first = [one.row(draw) for draw in range(100)]
    assert first != [one.row(draw) for draw in range(100, 200)]
    assert first != [other.row(draw) for draw in range(100)]


def findings(tmp_path: Path, rows: Sequence[object], **needs: int) -> list[str]:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = SourceFile(path=path, filename="prompts.jsonl")
    spec = PromptFilesSpec(
        training_file=file,
        validation_rows=MAX_ROWS,
        prompt_type="plain",
        needs_gold=bool(needs.get("needs_gold")),
        needs_answer=bool(needs.get("needs_answer")),
        gold_sources=["math"] if needs.get("math_needs_gold") else [],
    )
    (tmp_path / SPEC).write_text(spec.model_dump_json())
    validate(tmp_path, PromptFilesSpec, check_prompts)
    reports = list(map(json.loads, (tmp_path / REPORTS).read_text().splitlines()))
    (tmp_path / REPORTS).unlink()
    errors = [each["message"] for each in reports if each.get("level") == "error"]
    return [error.removeprefix("prompts.jsonl: ") for error in errors]


def test_rows_are_checked_for_the_needs_of_the_method(tmp_path: Path) -> None:
    rows = [{"question": "q", "gold": "g"}, {"question": "q"}]
    assert findings(tmp_path, rows) == []
    (gold,) = findings(tmp_path, rows, needs_gold=True)
    assert gold.startswith("row 2: gold is missing")
    of_sources = [{**row, "source": source} for row in rows for source in ("game", "math")]
    (math,) = findings(tmp_path, of_sources, math_needs_gold=True)
    assert math.startswith("row 4: gold is missing")
    (answer,) = findings(tmp_path, rows, needs_answer=True)
    assert answer.startswith("row 2: has no answer to learn from")


def validated(folder: Path, training: Sequence[object], held_out: Sequence[object]) -> Any:
    """The result of validating two files, of which the second may have two rows."""
    files = {}
    for name, rows in (("training_file", training), ("validation_file", held_out)):
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        files[name] = SourceFile(path=path, filename=path.name)
    spec = PromptFilesSpec(
        training_file=files["training_file"],
        validation_file=files["validation_file"],
        validation_rows=2,
        prompt_type="plain",
        needs_gold=True,
        needs_answer=False,
    )
    (folder / SPEC).write_text(spec.model_dump_json())
    validate(folder, PromptFilesSpec, check_prompts)
    return json.loads((folder / RESULT).read_text())


def test_validation_file_is_checked_too(tmp_path: Path) -> None:
    good, bad = {"question": "q", "gold": "g"}, {"question": "q"}
    assert validated(tmp_path, [good] * 3, [good])["training_file"] == {"prompts": 3}
    error = validated(tmp_path, [good], [good, bad])["error"]
    assert error["param"] == "validation_file"
    assert error["message"].startswith("validation_file.jsonl: row 2: gold is missing")
    error = validated(tmp_path, [good], [good] * 3)["error"]
    assert error["param"] == "validation_file"
    assert "row 3: exceeds the limit of 2 rows" in error["message"]
    assert validated(tmp_path, [bad], [bad])["error"]["param"] == "training_file"


def test_all_bad_rows_are_reported(tmp_path: Path) -> None:
    assert len(findings(tmp_path, [{"question": ""}, {"prompt": "p"}, {"x": 1}])) == 2


def test_a_teacher_with_other_words_is_refused_before_training(tmp_path: Path) -> None:
    student = KINDS["llama3"].write(tmp_path / "student")
    teacher = KINDS["mistral"].write(tmp_path / "teacher")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"question": "q"}\n')
    spec = PromptFilesSpec(
        training_file=SourceFile(path=prompts, filename=prompts.name),
        validation_rows=MAX_ROWS,
        prompt_type="plain",
        needs_gold=False,
        needs_answer=False,
        taught=TaughtModel(student=student, teacher=teacher),
    )
    (tmp_path / SPEC).write_text(spec.model_dump_json())

    validate(tmp_path, PromptFilesSpec, check_prompts)

    error = json.loads((tmp_path / RESULT).read_text())["error"]
    assert (error["code"], error["param"]) == ("vocabulary_differs", TEACHER)
    assert "the teacher has another vocabulary" in error["message"]
