"""Validation of reward definitions."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from services.contracts.rewards.openai_graders import MultiGrader
from services.contracts.rewards.rewards import Reward

_REWARD: TypeAdapter[Reward] = TypeAdapter(Reward)
EXACT = {"type": "string_check", "name": "a", "operation": "eq", "input": "", "reference": ""}
INPUT = [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(
    "reward",
    [
        *({}, {"type": "guess"}, {"type": "retool", "capp": True}, {"type": "retool", "cap": 1}),
        {"type": "search_em", "format_score": "0.1"},
        {"type": "http", "url": "file:///etc/passwd"},
        {"type": "callable", "function": "no_dot"},
        {"type": "callable", "function": "os.system('x')"},
        {"type": "judge", "model": "m", "prompt": "p", "range": [1, 0]},
        {"type": "judge", "model": "m", "prompt": "p", "normalise": True},  # retired name
        EXACT | {"operation": "regex"},
        EXACT | {"type": "text_similarity", "evaluation_metric": "cosine"},
        {"type": "score_model", "name": "s", "model": "m", "input": []},
        {"type": "score_model", "name": "s", "model": "m", "input": INPUT, "range": [0]},
        {"type": "score_model", "name": "s", "model": "m", "input": INPUT, "range": [2, 1]},
        {
            **{"type": "label_model", "name": "l", "model": "m", "input": INPUT},
            **{"labels": ["a"], "passing_labels": ["b"]},
        },
        {"type": "multi", "name": "m", "graders": [EXACT, EXACT], "calculate_output": "a"},
        {"type": "multi", "name": "m", "graders": {}, "calculate_output": "1"},
        {"type": "multi", "name": "m", "graders": {"a b": EXACT}, "calculate_output": "1"},
        {"type": "multi", "name": "m", "graders": [1], "calculate_output": "1"},
        {"type": "multi", "name": "m", "graders": None, "calculate_output": "1"},
    ],
)
def test_inconsistent_rewards_are_rejected(reward: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _REWARD.validate_python(reward)


def test_multi_graders_cannot_be_nested() -> None:
    inner = {"type": "multi", "name": "m", "graders": {"a": EXACT}, "calculate_output": "a"}

    with pytest.raises(ValidationError):
        MultiGrader.model_validate(inner | {"graders": {"x": inner}})


@pytest.mark.parametrize("graders", [{"a": EXACT}, [EXACT], EXACT])
def test_graders_of_a_multi_grader_are_accepted_in_three_formats(graders: Any) -> None:
    multi = MultiGrader.model_validate({"name": "m", "graders": graders, "calculate_output": "a"})

    assert list(multi.by_variable) == ["a"]
    assert MultiGrader.model_validate_json(multi.model_dump_json()) == multi
