"""The child that validates the prompts of a job before it is queued."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.rollouts.rollouts import MAX_TRAJECTORIES
from services.core.artifacts import SourceFile
from services.core.process.reporter import REPORTS, RESULT
from services.datasets.validate import SPEC, PromptTemplate
from services.datasets.validate import validate as validate_files
from services.evaluator.rollout.spec import PromptFileSpec
from services.evaluator.rollout.validation import check_prompts
from tests.support.models.template_kinds import WITHOUT_CALLS


def validate(folder: Path, rows: list[Any], **fields: Any) -> dict[str, Any]:
    """Validate these rows and return the result."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values: dict[str, Any] = {
        "prompt_type": "plain",
        "needs_gold": False,
        "max_prompts": None,
        "samples_per_prompt": 1,
    }
    spec = PromptFileSpec(
        file=SourceFile(path=path, filename="my prompts.jsonl"), **(values | fields)
    )
    (folder / SPEC).write_text(spec.model_dump_json())
    validate_files(folder, PromptFileSpec, check_prompts)
    return dict(json.loads((folder / RESULT).read_bytes()))


def test_valid_prompts_are_counted(tmp_path: Path) -> None:
    rows = [{"question": "a"}, {"prompt": "b", "gold": 1}]

    assert validate(tmp_path, rows, samples_per_prompt=4) == {
        "status": "succeeded",
        "file": {"prompts": 2},
    }
    assert "2 prompts, 8 rollouts to play" in (tmp_path / REPORTS).read_text()


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": "a"}, "messages is missing"),
        ({"question": "a", "prompt_type": "none"}, "prompt_type"),
        ([], "is a list"),
    ],
)
def test_an_invalid_prompt_is_reported_by_row_and_field(
    tmp_path: Path, row: Any, problem: str
) -> None:
    error = validate(tmp_path, [{"question": "a"}, row])["error"]

    assert (error["code"], error["param"]) == ("invalid_prompt_file", "file")
    assert "my prompts.jsonl: row 2: " in error["message"]
    assert problem in error["message"]


def test_rows_without_gold_are_rejected_if_a_reward_needs_it(tmp_path: Path) -> None:
    rows = [{"question": "a", "gold": "1"}, {"question": "b"}]

    assert validate(tmp_path, rows)["status"] == "succeeded"
    error = validate(tmp_path, rows, needs_gold=True)["error"]
    assert "row 2: gold is missing" in error["message"]


def test_more_rollouts_than_the_limit_of_a_job_are_rejected(tmp_path: Path) -> None:
    rows = [{"question": "a"}, {"question": "b"}]
    samples = MAX_TRAJECTORIES // 2 + 1

    error = validate(tmp_path, rows, samples_per_prompt=samples)["error"]

    assert (error["code"], error["param"]) == ("invalid_request", "max_prompts")
    assert validate(tmp_path, rows, samples_per_prompt=samples, max_prompts=1)["status"] == (
        "succeeded"
    )


def test_prompts_that_lose_words_to_the_chat_template_are_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "chat_template.jinja").write_text(WITHOUT_CALLS)
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "a", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "How is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "sunny"},
    ]

    validate(
        tmp_path,
        [{"question": "a"}, {"messages": messages}],
        template=PromptTemplate(folder=tmp_path),
    )

    lines = map(json.loads, (tmp_path / REPORTS).read_text().splitlines())
    (warning,) = [each["message"] for each in lines if each.get("level") == "warn"]
    assert "1 prompt lose words to the chat template: rows 2; of row 2: turn 1" in warning
    assert "call 'get_weather'" in warning
