"""Two concurrent campaigns on shared GPUs, compared with running them one after the other.

GPUs are simulated (`benchmarks.simulated_gpus`), each LLM answer takes a second, and data scripts
are run; queue, leases, steps and verdicts are real. Both pairs run the same campaigns. Prints the
time from the creation of the first to the end of both, and the ratio. Run from the repository root:

    python -m benchmarks.parallel_campaigns [loops]
"""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.simulated_gpus import EVALUATION_SECONDS, GPUS, TRAINING_SECONDS
from tests.integration.campaigns.test_campaigns import BAD, Campaigns, Script, running_campaigns

LOOPS = 3
ANSWER_SECONDS = 1.0
SECONDS = 1200.0


def main() -> None:
    """Run the benchmark."""
    loops = int(sys.argv[1]) if len(sys.argv) > 1 else LOOPS
    with (
        tempfile.TemporaryDirectory() as folder,
        running_campaigns(Path(folder), "benchmarks.simulated_gpus") as campaigns,
        campaigns.worker(),
    ):
        campaigns.llm.answer = Script({loop: [BAD] for loop in range(1, loops + 1)})
        campaigns.llm.answer_seconds = ANSWER_SECONDS
        pair(campaigns, 1, in_order=False)  # exclude imports and first connections
        print(
            f"{loops} loops each; {len(GPUS)} GPUs, trainings of {TRAINING_SECONDS:g} s, "
            f"evaluations of {EVALUATION_SECONDS:g} s, answers of {ANSWER_SECONDS:g} s"
        )
        in_order = pair(campaigns, loops, in_order=True)
        print(f"one after the other: {in_order:.1f} s")
        together = pair(campaigns, loops, in_order=False)
        print(f"concurrently: {together:.1f} s, {together / in_order:.3f} of it")


def pair(campaigns: Campaigns, loops: int, *, in_order: bool) -> float:
    """Return the seconds of two campaigns; with ``in_order``, the second waits for the first."""
    begun = time.perf_counter()
    first = campaigns.create({"gpus": 1}, loops=loops)
    second = campaigns.create({"gpus": 1, "after": [first] if in_order else []}, loops=loops)
    for campaign in (first, second):
        campaigns.client.wait_until(campaign, "succeeded", SECONDS)
        attempts = campaigns.loops(campaign)
        if [attempt["failure"] for attempt in attempts] != [None] * (1 + loops):
            raise RuntimeError(f"a loop failed: {attempts}")
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
