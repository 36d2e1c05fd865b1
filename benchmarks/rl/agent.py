"""Reinforcement learning whose rollouts an agent plays, beside Temper's own loop.

    python -m benchmarks.rl.agent [--steps 40] [--seed 1]

Both trainings start from the same model, which was taught to call a tool, and take the same
questions, reward and settings. One is played by Temper's loop with its tool; the other by
`examples/agent/calculator.py`, a service with the unmodified openai package and a tool of its own.
Prints the mean sampled reward by step of both and the time of a step; exits with 0 only if both
learned.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean

import httpx

from benchmarks.serving.server import free_port
from examples.demo_3_tool_use.run import prepare
from examples.demo_3_tool_use.steps import cold_start, reinforcement
from examples.demo_3_tool_use.tasks import Arithmetic
from examples.demo_common.printer import Printer
from examples.demo_common.report import rewards_by_step
from examples.demo_common.setup import SCRIPTS, home_folder, local_stack
from examples.demo_common.steps import Demo
from temper.types import (
    CreateFineTuningJob,
    FilePurpose,
    FineTuningJob,
)

PART = 5
"""Steps of one printed mean."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    task, home, out = Arithmetic(), home_folder(), Printer()
    model, data = prepare(task, home, out, given.steps, given.seed)
    with _agent() as origin, local_stack(home, out, origin) as client:
        demo = Demo(client, out, home)
        base = demo.register(model)
        conversations = demo.upload(data.conversations, FilePurpose.FINE_TUNE)
        prompts = demo.upload(data.prompts, FilePurpose.FINE_TUNE)
        cold = demo.train(cold_start(task, base, conversations, given.seed), conversations)
        own = reinforcement(task, cold, prompts, given.steps, given.seed)
        jobs = {
            "agent": demo.train(_by_agent(own, f"{origin}/play"), prompts),
            "own loop": demo.train(own, prompts),
        }
        curves = {name: rewards_by_step(job, client) for name, job in jobs.items()}
    _print(jobs, curves)
    return 0 if all(_has_learned(curve) for curve in curves.values()) else 1


def _by_agent(own: CreateFineTuningJob, url: str) -> CreateFineTuningJob:
    """The same training, with rollouts by an agent."""
    fields = own.model_dump(mode="json")
    settings = fields["method"]["reinforcement"]["hyperparameters"]
    length = settings["multi_turn"]["max_total_response_length"]
    settings |= {
        "tools": [],
        "agent": {"type": "http", "url": url},
        "multi_turn": {"max_total_response_length": length},
    }
    return CreateFineTuningJob.model_validate({**fields, "suffix": "agent"})


@contextmanager
def _agent() -> Iterator[str]:
    """The origin of the agent's service, which runs within the block."""
    port = free_port()
    command = [sys.executable, str(SCRIPTS / "agent" / "calculator.py"), f"--port={port}"]
    process = subprocess.Popen(command)
    try:
        origin = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as http:
            http.get(origin, timeout=60.0)
        yield origin
    finally:
        process.terminate()
        process.wait(timeout=30.0)


def _has_learned(curve: Mapping[int, float]) -> bool:
    values = [curve[step] for step in sorted(curve)]
    return fmean(values[-PART:]) > fmean(values[:PART])


def _print(jobs: Mapping[str, FineTuningJob], curves: Mapping[str, Mapping[int, float]]) -> None:
    for name, job in jobs.items():
        print(f"{name}: {job.id}, {job.train_seconds or 0.0:.0f} s")
    print("| steps | " + " | ".join(curves) + " |")
    steps = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    for begin in range(0, len(steps), PART):
        part = steps[begin : begin + PART]
        means = (f"{fmean(curve[step] for step in part):+.3f}" for curve in curves.values())
        print(f"| {part[0]} to {part[-1]} | " + " | ".join(means) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
