"""Rewards are weighted sums; components are stored and failures are reported."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.models.registered import RemoteModel
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.core.operator_environment import OperatorEnvironment
from services.jobs.worker.settings import WorkerSettings
from services.rewards.scorer import open_scorer
from tests.support.rewards import rewarded, rewarded_all, trajectory, weighted

RETOOL = {"name": "right", "weight": 0.75, "reward": {"type": "retool"}}
SEARCH = {"name": "match", "weight": -2, "reward": {"type": "search_em", "format_score": 0.5}}
PYTHON = {"type": "python", "name": "p", "source": "def grade(sample, item): return 1"}
NOWHERE = OperatorEnvironment(sandbox_url="http://127.0.0.1:9", attempts=1)


def test_the_reward_is_the_weighted_sum_of_its_components() -> None:
    sample = trajectory("\\boxed{4}", gold=["4"])

    judged = rewarded(sample, RETOOL, SEARCH)

    assert judged.reward_components == {"right": 1.0, "match": 1.0}
    assert judged.reward == 0.75 - 2.0
    assert judged.reward_error is None
    assert sample.reward is None  # the input record is unchanged


def test_a_reward_scores_the_rows_of_its_sources_only() -> None:
    own = {**RETOOL, "sources": ["math", "other"]}
    everywhere = {**SEARCH, "weight": 1}

    def judged(*rewards: JsonObject, **extra: str) -> Trajectory:
        return rewarded(trajectory("\\boxed{4}", gold=["4"], extra=extra), *rewards)

    assert judged(own, everywhere, data_source="math").reward == 1.75
    assert judged(own, everywhere, source="game", data_source="math").reward == 1.0
    assert judged(own, everywhere).reward_components == {"match": 1.0}
    unscored = judged(own, source="game")
    assert (unscored.reward, unscored.left_out) == (None, None)
    assert unscored.reward_error == "no reward scores the source 'game'"


def test_a_failed_component_leaves_no_reward_but_keeps_the_other_components() -> None:
    judged = rewarded(
        trajectory("\\boxed{4}"),
        RETOOL,
        {"name": "code", "reward": PYTHON},
        environment=NOWHERE,
    )

    assert judged.reward is None
    assert judged.reward_components == {"right": 1.0}
    assert judged.reward_error is not None
    assert judged.reward_error.startswith("code: ")
    assert "127.0.0.1:9" in judged.reward_error
    assert judged.left_out is not None
    assert (judged.left_out.source, judged.left_out.cause) == ("reward:code", "refused")
    assert judged.infrastructure_failures == {"reward:code": 1}


@pytest.mark.parametrize("reason", [FinishReason.ENGINE_FAILED, FinishReason.INTERNAL_ERROR])
def test_a_failed_rollout_is_not_scored(reason: FinishReason) -> None:
    sample = trajectory("\\boxed{4}", finish_reason=reason, error="it broke")

    judged = rewarded(sample, RETOOL)

    assert (judged.reward, judged.reward_components) == (None, {})
    assert judged.reward_error == "the rollout failed: it broke"


@pytest.mark.parametrize("reason", [reason for reason in FinishReason if not reason.is_failure])
def test_every_rollout_that_did_not_fail_is_scored(reason: FinishReason) -> None:
    assert rewarded(trajectory("\\boxed{4}", finish_reason=reason), RETOOL).reward == 0.75


def test_without_rewards_a_trajectory_is_unchanged() -> None:
    sample = trajectory("\\boxed{4}", reward=3.0)

    assert rewarded(sample) == sample


@pytest.mark.parametrize("weights", [(1e308, 1e308), (1e308, -1e308), (1.0, 1e308)])
def test_an_overflowing_weighted_sum_is_reported(weights: tuple[float, float]) -> None:
    rewards = [
        {
            "name": f"r{position}",
            "weight": weight,
            "reward": {"type": "search_em", "format_score": 10.0**position},
        }
        for position, weight in enumerate(weights)
    ]

    judged = rewarded(trajectory("<answer>5</answer>"), *rewards)

    assert judged.reward is None
    assert judged.reward_error == "the weighted sum is not a finite number"


def test_a_rollout_without_turns_is_scored() -> None:
    assert rewarded(trajectory(), RETOOL).reward == -0.75


def test_trajectories_are_scored_concurrently() -> None:
    samples = [trajectory(f"\\boxed{{{number % 2}}}", gold=["1"]) for number in range(100)]

    judged = rewarded_all(samples, {"type": "retool", "equivalence": "math"})

    assert [each.reward for each in judged] == [-1.0, 1.0] * 50


def opened(*rewards: dict[str, Any], environment: OperatorEnvironment) -> None:
    async def try_it() -> None:
        async with open_scorer(weighted(*rewards), environment):
            pass

    asyncio.run(try_it())


def test_a_function_needs_the_operators_permission() -> None:
    reward = {"type": "callable", "function": "os.getcwd"}

    with pytest.raises(PermissionDenied) as caught:
        opened(RETOOL, reward, environment=OperatorEnvironment(allowed_callables=("os.getpid",)))

    assert caught.value.param == "rewards[1].reward.function"


@pytest.mark.parametrize(
    "reward",
    [
        {"type": "reward_model", "model": "absent"},
        {"type": "judge", "model": "absent", "prompt": "p"},
    ],
)
def test_a_missing_model_is_reported_by_field(reward: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="absent") as caught:
        opened(reward, environment=OperatorEnvironment())

    assert caught.value.param == "rewards[0].reward.model"


def test_the_environment_reaches_a_child_which_removes_the_keys_from_it(tmp_path: Path) -> None:
    judge = RemoteModel.model_validate({"base_url": "http://j.example/v1", "model": "m"})
    settings = WorkerSettings(
        home=tmp_path,
        endpoint_keys={"http://j.example": "sk-1"},
        sandbox_api_key="sk-2",
        judge_models={"j": judge},
        allowed_callables=["a.b"],
    )
    variables = OperatorEnvironment.of(settings).variables()

    received = OperatorEnvironment.take_from(variables)

    assert received == OperatorEnvironment.of(settings)
    assert received.key_of("http://j.example:80") == "sk-1"
    assert received.judge_models == {"j": judge}
    assert variables == {}
    assert "sk-" not in repr(received)
    assert OperatorEnvironment.take_from({}) == OperatorEnvironment()
