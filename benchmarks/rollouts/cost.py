"""Cost of the loop relative to the engine's completions alone."""

import statistics
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.rollouts.conversations import Conversation, drawn
from benchmarks.rollouts.engines import AtOnce, Pace
from benchmarks.rollouts.runner import Stage, Timing, complete, play

SEED = 6
ROUNDS = 4
GOAL = 0.10

Way = Callable[[Sequence[Conversation], Stage, Pace], Awaitable[Timing]]


async def measure(stage: Stage, count: int, pace: Pace, what: str, rounds: int = ROUNDS) -> None:
    """Run ``count`` conversations with zero-latency tools and, alternating with them, their
    completions alone, so that other load on the machine affects both alike."""
    costs, cpu_costs = [], []
    for round_ in range(rounds):
        runs: dict[Way, Timing] = {}
        for position, way in enumerate((complete, play) if round_ % 2 else (play, complete)):
            runs[way] = await way(_at_once(count, 2 * round_ + position), stage, pace)
        ours, raw = runs[play], runs[complete]
        costs.append(raw.rate / ours.rate - 1)
        cpu_costs.append(raw.cpu_rate / ours.cpu_rate - 1)
        print(
            f"  {ours.rate:,.0f} tokens/s in the loop, {raw.rate:,.0f} in completions alone:"
            f" {costs[-1]:+.1%}; CPU time {_cpu(ours)} and {_cpu(raw)}",
            flush=True,
        )
    cost = statistics.median(costs)
    print(
        f"{what}, {count} conversations, {stage.in_flight} in flight: the loop costs {cost:+.1%}"
        f" (goal {GOAL:.0%}: {'reached' if cost <= GOAL else 'MISSED'})"
    )
    if ours.engine_cpu_seconds:
        print(
            f"  by CPU time, which other work on the machine does not change:"
            f" {statistics.median(cpu_costs):+.1%}",
            flush=True,
        )


def _cpu(timing: Timing) -> str:
    return f"{timing.cpu_seconds:.1f}+{timing.engine_cpu_seconds:.0f} s"


async def warm_up(stage: Stage, pace: Pace) -> None:
    """Let an engine do its first-time work."""
    await complete(_at_once(stage.in_flight // 4, 99), stage, pace)


async def measure_cpu(stage: Stage, count: int) -> None:
    """Measure our CPU time with an engine that takes none."""
    conversations = _at_once(count, 0)
    turns = sum(len(each.turns) for each in conversations)
    times = []
    for _ in range(ROUNDS):
        raw = await complete(conversations, stage, AtOnce())
        ours = await play(conversations, stage, AtOnce())
        times.append(1000 * (ours.cpu_seconds - raw.cpu_seconds) / turns)
    print(
        f"CPU time of our code: {statistics.median(times):.2f} ms a turn ({turns} turns,"
        f" {ours.tokens / turns:.0f} tokens each; prompt, parsing, reply, record and file)",
        flush=True,
    )


def _at_once(count: int, run: int) -> list[Conversation]:
    return [each.without_latency(run) for each in drawn(count, SEED)]
