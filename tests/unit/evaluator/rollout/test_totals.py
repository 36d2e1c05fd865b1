"""Statistics of a rollout job."""

import pytest

from services.contracts.rollouts.trajectories import CallOutcome, FinishReason, Trajectory
from services.evaluator.rollout.totals import UNKNOWN_TOOLS, RolloutTotals
from tests.support.trajectories import call, trajectory

SCHEMAS = [{"type": "function", "function": {"name": "search"}}]


def totals(*trajectories: Trajectory, seconds: float = 2.0) -> RolloutTotals:
    counted = RolloutTotals(seconds)
    for each in trajectories:
        counted.add(each)
    return counted


def test_reward_statistics_include_components() -> None:
    found = totals(
        trajectory(0, 0, reward=1.0, reward_components={"box": 1.0, "short": 0.0}),
        trajectory(0, 1, reward=0.0, reward_components={"box": 0.0, "short": 0.0}),
        trajectory(1, 0, reward=0.5, reward_components={"box": 0.0, "short": 1.0}),
        trajectory(1, 1, reward=0.5, reward_components={"box": 0.0, "short": 1.0}),
        trajectory(2, 0, reward_error="the judge is away"),
    ).statistics()

    assert (found.prompts, found.trajectories, found.failed) == (3, 5, 0)
    assert found.reward is not None
    assert (found.reward.count, found.reward.mean) == (4, 0.5)
    assert found.reward_components["box"].mean == 0.25
    assert found.reward_components["short"].mean == 0.5
    assert found.best_reward is not None
    assert (found.best_reward.count, found.best_reward.mean) == (2, 0.75)
    assert (found.uniform_prompts, found.reward_errors) == (1, 1)


def test_a_prompt_with_one_sample_is_not_counted_as_uniform() -> None:
    found = totals(trajectory(0, reward=1.0), trajectory(1, reward=1.0)).statistics()

    assert found.uniform_prompts == 0


def test_no_reward_statistics_without_rewards() -> None:
    found = totals(trajectory(0)).statistics()

    assert (found.reward, found.best_reward, found.reward_components) == (None, None, {})


def test_tool_calls_are_counted_by_tool_and_outcome() -> None:
    found = totals(
        trajectory(
            0,
            tools=SCHEMAS,
            calls=[
                call("search", seconds=1.0, attempts=2),
                call("search", CallOutcome.TIMED_OUT, seconds=3.0, attempts=3),
                call("search", CallOutcome.DROPPED, seconds=0.0, attempts=0),
            ],
        ),
        trajectory(1, tools=SCHEMAS, calls=[call("serach", CallOutcome.UNKNOWN_TOOL)], malformed=2),
    ).statistics()

    search = found.tools["search"]
    assert (search.calls, search.failed, search.attempts) == (2, 1, 5)
    assert search.outcomes == {"answered": 1, "timed_out": 1, "dropped": 1}
    assert search.seconds is not None
    assert search.seconds.mean == 2.0
    assert found.tools[UNKNOWN_TOOLS].outcomes == {"unknown_tool": 1}
    assert (found.calls, found.failed_calls, found.malformed_calls) == (3, 2, 2)


def test_unknown_tool_names_are_counted_together() -> None:
    made_up = [
        trajectory(n, tools=SCHEMAS, calls=[call(f"tool-{n}", CallOutcome.UNKNOWN_TOOL)])
        for n in range(50)
    ]

    assert set(totals(*made_up).statistics().tools) == {UNKNOWN_TOOLS}


def test_statistics_describe_lengths_and_times() -> None:
    found = totals(
        trajectory(0, tokens=4, seconds=1.0, model_seconds=0.75, tool_seconds=0.25),
        trajectory(1, tokens=2, seconds=3.0, model_seconds=0.25, tool_seconds=2.75),
        seconds=3.0,
    ).statistics()

    assert (found.response_tokens.mean, found.response_tokens.max) == (3.0, 4.0)
    assert found.prompt_tokens.mean == 3.0
    assert (found.seconds.mean, found.model_seconds.mean) == (2.0, 0.5)
    assert found.tool_seconds.max == 2.75
    assert (found.generation_seconds, found.tokens_per_second) == (3.0, 2.0)


def test_failed_rollouts_are_counted_separately() -> None:
    found = totals(
        trajectory(0),
        trajectory(1, finish_reason=FinishReason.ENGINE_FAILED),
        trajectory(2, finish_reason=FinishReason.LENGTH),
    ).statistics()

    assert found.failed == 1
    assert found.finish_reasons == {"answered": 1, "engine_failed": 1, "length": 1}


def test_statistics_do_not_depend_on_the_order() -> None:
    made = [trajectory(n % 3, n, reward=n / 7, tokens=n) for n in range(9)]

    forth, back = totals(*made).statistics(), totals(*made[::-1]).statistics()

    assert forth.reward is not None
    assert back.reward is not None
    assert forth.reward.stderr == pytest.approx(back.reward.stderr)
    assert forth.response_tokens == back.response_tokens
