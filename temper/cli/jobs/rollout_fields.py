"""Configuration and statistics of a rollout job as fields for display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temper.cli.evaluations.fields import left_out_text
from temper.cli.units import duration, number

if TYPE_CHECKING:
    from services.contracts.rollouts.rollouts import RewardSpread, Rollout, RolloutStatistics


def rollout_fields(job: Rollout) -> dict[str, str | None]:
    """Return a rollout job's own fields for display."""
    tools = ", ".join(tool.class_name.rpartition(".")[2] for tool in job.tools)
    rewards = ", ".join(f"{each.name} x {number(each.weight)}" for each in job.rewards)
    return {
        "model": job.model if isinstance(job.model, str) else job.model.model,
        "prompts": job.file or "inline",
        "samples": f"{job.samples_per_prompt} each",
        "tools": tools or None,
        "rewards": rewards or None,
        **(_statistics(job.statistics) if job.statistics else {}),
    }


def _statistics(found: RolloutStatistics) -> dict[str, str | None]:
    ends = ", ".join(f"{name} {count:,}" for name, count in _by_count(found.finish_reasons))
    components = {
        f"  {name}": _interval(each)
        for name, each in found.reward_components.items()
        if len(found.reward_components) > 1
    }
    tools = {
        f"  {name}": f"{each.calls:,} calls, {each.failed:,} failed"
        + (f", median {each.seconds.median:.2f} s" if each.seconds else "")
        for name, each in found.tools.items()
    }
    return {
        "trajectories": f"{found.trajectories:,} of {found.prompts:,} prompts",
        "ended": ends,
        "left out": left_out_text(found.left_out, found.left_out_causes),
        "reward": _interval(found.reward) if found.reward else None,
        **components,
        "best per prompt": _interval(found.best_reward) if found.best_reward else None,
        "uniform reward": f"{found.uniform_prompts:,} prompts" if found.uniform_prompts else None,
        "without reward": f"{found.reward_errors:,}" if found.reward_errors else None,
        "calls": f"{found.calls:,} ({found.failed_calls:,} failed)" if found.calls else None,
        **tools,
        "malformed calls": f"{found.malformed_calls:,}" if found.malformed_calls else None,
        "tokens": f"median {found.response_tokens.median:,.0f}, "
        f"longest {found.response_tokens.max:,.0f}",
        "time": f"model {found.model_seconds.mean:.1f} s, tools {found.tool_seconds.mean:.1f} s "
        f"per trajectory; {duration(found.generation_seconds)} in total",
        "tokens/s": number(found.tokens_per_second),
    }


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: -each[1])


def _interval(spread: RewardSpread) -> str:
    low, high = spread.ci95
    return f"{spread.mean:.4f} (95 % interval {low:.4f} to {high:.4f})"
