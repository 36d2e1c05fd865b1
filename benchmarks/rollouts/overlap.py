"""Whether conversations wait only for their own model and tools."""

from benchmarks.rollouts.bound import greedy_seconds, least_seconds
from benchmarks.rollouts.conversations import drawn
from benchmarks.rollouts.engines import FixedRate
from benchmarks.rollouts.runner import Stage, play, play_in_lock_step

TOKENS_PER_SECOND = 400.0
SEED = 5
GOAL = 0.9
LOCK_STEP_BATCHES = 3


async def measure(stage: Stage, count: int) -> None:
    """Run ``count`` conversations in our loop, and the first of them in lockstep."""
    conversations = drawn(count, SEED)
    pace = FixedRate(TOKENS_PER_SECOND)
    ours = await play(conversations, stage, pace)
    durations = [ours.model_seconds[each.session] + sum(each.latencies) for each in conversations]
    least = least_seconds(durations, stage.in_flight)
    greedy = greedy_seconds(durations, stage.in_flight)
    share = least / ours.seconds
    print(
        f"{count} conversations, {sum(len(each.turns) for each in conversations)} turns,"
        f" {stage.in_flight} in flight, {TOKENS_PER_SECOND:.0f} tokens/s each:"
        f" {ours.seconds:.1f} s"
    )
    print(
        f"  of the least time, {least:.1f} s: {share:.3f} (goal {GOAL}:"
        f" {'reached' if share >= GOAL else 'MISSED'}); of a greedy schedule without any cost,"
        f" {greedy:.1f} s: {greedy / ours.seconds:.3f}"
    )
    few = conversations[: LOCK_STEP_BATCHES * stage.in_flight]
    slow = await play_in_lock_step(few, stage, pace)
    ratio = (slow.seconds / len(few)) / (ours.seconds / count)
    print(
        f"  in lock step {len(few)} conversations take {slow.seconds:.1f} s:"
        f" {ratio:.2f} times as long each",
        flush=True,
    )
