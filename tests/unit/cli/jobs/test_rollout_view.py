"""A rollout job's statistics in ``temper show``."""

from services.contracts.rollouts.rollouts import (
    RewardSpread,
    Rollout,
    RolloutStatistics,
    Spread,
    ToolStatistics,
)
from temper.cli.jobs.job_view import job_fields

SPREAD = Spread(count=8, mean=3.0, min=1.0, median=2.0, p95=6.0, max=1234.0)
REWARD = RewardSpread(**SPREAD.model_dump() | {"mean": 0.625}, stderr=0.1, ci95=(0.429, 0.821))


def rollout(**statistics: object) -> Rollout:
    found = RolloutStatistics(
        **{
            "prompts": 4,
            "trajectories": 8,
            "failed": 1,
            "finish_reasons": {"engine_failed": 1, "answered": 7},
            "reward": REWARD,
            "reward_components": {"answer": REWARD},
            "best_reward": REWARD,
            "uniform_prompts": 0,
            "reward_errors": 0,
            "tools": {
                "search": ToolStatistics(
                    calls=9, failed=2, attempts=11, outcomes={"answered": 7}, seconds=SPREAD
                )
            },
            "calls": 9,
            "failed_calls": 2,
            "malformed_calls": 3,
            "generation_seconds": 75.0,
            "tokens_per_second": 1530.2,
            **dict.fromkeys(
                (
                    *("prompt_tokens", "response_tokens", "sampled_tokens", "turns"),
                    *("seconds", "model_seconds", "tool_seconds"),
                ),
                SPREAD,
            ),
            **statistics,
        }
    )
    return Rollout.model_validate(
        {
            "id": "rollout-1",
            "created_at": 0,
            "status": "succeeded",
            "model": "tiny",
            "file": "file-1",
            "prompt_type": "plain",
            "samples_per_prompt": 2,
            "tools": [{"class_name": "verl.tools.search_tool.SearchTool"}],
            "multi_turn": {},
            "sampling": {},
            "rewards": [{"name": "answer", "weight": 0.5, "reward": {"type": "retool"}}],
            "seed": 0,
            "statistics": found,
        }
    )


def test_rewards_calls_lengths_and_times_are_shown() -> None:
    fields = job_fields(rollout())

    assert fields["tools"] == "SearchTool"
    assert fields["rewards"] == "answer x 0.5"
    assert fields["trajectories"] == "8 of 4 prompts"
    assert fields["ended"] == "answered 7, engine_failed 1"
    assert fields["reward"] == "0.6250 (95 % interval 0.4290 to 0.8210)"
    assert fields["calls"] == "9 (2 failed)"
    assert fields["  search"] == "9 calls, 2 failed, median 2.00 s"
    assert fields["malformed calls"] == "3"
    assert fields["tokens"] == "median 2, longest 1,234"
    assert fields["time"] == "model 3.0 s, tools 3.0 s per trajectory; 1m15s in total"
    assert fields["tokens/s"] == "1,530"


def test_several_reward_components_are_listed() -> None:
    one = job_fields(rollout())
    two = job_fields(rollout(reward_components={"answer": REWARD, "short": REWARD}))

    assert "  answer" not in one
    assert two["  short"] == "0.6250 (95 % interval 0.4290 to 0.8210)"


def test_absent_statistics_are_omitted() -> None:
    fields = job_fields(
        rollout(
            reward=None,
            reward_components={},
            best_reward=None,
            tools={},
            calls=0,
            malformed_calls=0,
        )
    )

    assert not any(
        fields[name] for name in ("reward", "best per prompt", "calls", "malformed calls")
    )
