"""Invalid rewards are rejected before a job is created, naming the field."""

from typing import Any

import pytest

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.rewards.check import check_rewards
from services.rewards.needs import named_reward_models, needs_gold
from tests.support.rewards import weighted

EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}
SCORE = {
    "type": "score_model",
    "name": "s",
    "model": "judge",
    "input": [{"role": "user", "content": "{{ item.a }}"}],
}
PYTHON = {"type": "python", "name": "p", "source": "def grade(sample, item):\n    return 1.0\n"}
HTTP = {"type": "http", "url": "https://scores.example/v1?x=1"}
REMOTE = {"base_url": "https://scores.example/v1", "model": "m"}
JUDGE = {"type": "judge", "model": REMOTE, "prompt": "{{ sample.response }}"}
FUNCTION = {"type": "callable", "function": "shop.rewards.taste", "arguments": {"a": 1}}
MULTI = {"type": "multi", "name": "m", "graders": {"x": EXACT}, "calculate_output": "x / 2"}
LABEL = SCORE | {"type": "label_model", "labels": ["a", "b"], "passing_labels": ["a"]}


def check(*rewards: dict[str, Any], param: str = "rewards") -> None:
    check_rewards(
        weighted(*rewards),
        ["https://scores.example:443"],
        ["shop.rewards.taste"],
        {"judge"},
        param=param,
    )


@pytest.mark.parametrize(
    "reward",
    [
        *({"type": "retool"}, {"type": "search_em"}, {"type": "code_tests"}),
        *({"type": "reward_model", "model": "rm"}, HTTP, JUDGE, FUNCTION),
        *(EXACT, SCORE, LABEL, PYTHON, MULTI),
    ],
)
def test_a_valid_reward_passes(reward: dict[str, Any]) -> None:
    check(reward)


@pytest.mark.parametrize(
    ("reward", "param"),
    [
        (HTTP | {"url": "https://user:pw@scores.example/"}, "url"),
        (HTTP | {"url": "https://scores.example/#part"}, "url"),
        (JUDGE | {"model": "nobody"}, "model"),
        (JUDGE | {"prompt": "{{ item. }}"}, "prompt"),
        (FUNCTION | {"arguments": {"trajectory": 1}}, "arguments"),
        (EXACT | {"reference": "{{ env.KEY }}"}, "reference"),
        (EXACT | {"input": "{{ sample.a() }}"}, "input"),
        (SCORE | {"model": "nobody"}, "model"),
        (SCORE | {"input": [{"role": "user", "content": ["a", "{{ x }}"]}]}, "input[0].content"),
        (PYTHON | {"source": "def grade(sample, item) return 1"}, "source"),
        (PYTHON | {"source": "grade = None"}, "source"),
        (PYTHON | {"source": "(" * 10_000}, "source"),
        (MULTI | {"calculate_output": "x +"}, "calculate_output"),
        (MULTI | {"calculate_output": "x + y"}, "calculate_output"),
        (MULTI | {"graders": {"x": SCORE | {"model": "nobody"}}}, "graders.x.model"),
    ],
)
def test_a_reward_that_can_never_be_computed_is_rejected(
    reward: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check({"type": "retool"}, reward, param="method.ppo.rewards")

    assert caught.value.param == f"method.ppo.rewards[1].reward.{param}"


@pytest.mark.parametrize(
    ("reward", "param"),
    [
        (HTTP | {"url": "https://scores.example:444/"}, "url"),
        (HTTP | {"url": "http://scores.example/"}, "url"),
        (JUDGE | {"model": REMOTE | {"base_url": "http://169.254.169.254/v1"}}, "model.base_url"),
        (FUNCTION | {"function": "os.system"}, "function"),
        (
            MULTI | {"graders": {"x": SCORE | {"model": REMOTE | {"base_url": "http://x/"}}}},
            "graders.x.model.base_url",
        ),
    ],
)
def test_rewards_without_the_operators_permission_are_rejected(
    reward: dict[str, Any], param: str
) -> None:
    with pytest.raises(PermissionDenied) as caught:
        check(reward)

    assert caught.value.param == f"rewards[0].reward.{param}"


def test_duplicate_reward_names_are_rejected() -> None:
    reward = {"name": "a", "reward": {"type": "retool"}}

    with pytest.raises(InvalidRequest) as caught:
        check(reward, reward)

    assert caught.value.param == "rewards[1].name"


def test_rewards_report_whether_they_need_gold_and_which_models() -> None:
    assert needs_gold(weighted(HTTP, {"type": "search_em"}))
    assert needs_gold(weighted({"type": "retool"}))
    assert not needs_gold(weighted(HTTP, EXACT))
    models = weighted(HTTP, *({"type": "reward_model", "model": name} for name in "aba"))
    assert named_reward_models(models) == {"a", "b"}
