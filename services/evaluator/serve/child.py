"""The child process of a serving: vLLM, and the relay in front of it.

``python -m services.evaluator.serve.child <job_dir>`` in the core environment. It reads
``spec.json``, tells gateways where it is, and ends with the reason once nobody asks any more, or
fails with its cause. A restart on the same folder begins again; gateways repeat what was lost.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.serving import ServingResult
from services.core.process.reporter import Reporter, others_wait
from services.evaluator.child_process import ChildContext, run_child
from services.evaluator.failures import first_error
from services.evaluator.serve.activity import Activity
from services.evaluator.serve.adapters import Adapters
from services.evaluator.serve.engine import ServedEngine
from services.evaluator.serve.spec import SPEC, ServeSpec
from services.evaluator.serving import served
from services.inference.relay import Destination, Relay, published
from services.inference.relay_protocol import is_kept_warm
from services.inference.vllm.control import VllmControl

ADAPTERS = "adapters"
LOOK_SECONDS = 0.5
PHASE_CHARACTERS = 64
REPORT_SECONDS = 5.0
YIELD_SECONDS = 3.0
"""A serving ends for jobs that wait once it was idle for so long: requests of a conversation, or
of a loop of an agent, come one soon after another."""
DRAIN_SECONDS = 120.0
"""Longest wait for the requests in progress of a serving that leaves."""


async def serve(spec: ServeSpec, context: ChildContext) -> ServingResult:
    """Answer requests until the serving leaves. Raises ``TemperError``, also when vLLM dies."""
    job_dir, reporter = context.job_dir, context.reporter
    activity = Activity(spec.answered)
    async with (
        served(spec.model, job_dir, reporter, spec.routes, spec.name) as (server, _),
        VllmControl(server.base_url, server.api_key) as control,
        Relay(
            ServedEngine(
                Destination(server.base_url.removesuffix("/v1"), server.api_key),
                Adapters(control, spec.slots, job_dir / ADAPTERS),
                activity,
            ),
            spec.host,
        ) as relay,
    ):
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(server.watch())
                with published(relay, spec.epoch, job_dir):
                    reporter.phase(f"serving {spec.name}"[:PHASE_CHARACTERS])
                    await _until_leaving(spec, activity, job_dir, reporter)
                with suppress(TimeoutError):
                    async with asyncio.timeout(DRAIN_SECONDS):
                        await activity.drained()
                watch.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
    return ServingResult(
        requests=activity.answered, reason=activity.reason or "", outgrown=activity.outgrown
    )


async def _until_leaving(
    spec: ServeSpec, activity: Activity, job_dir: Path, reporter: Reporter
) -> None:
    """Wait for a reason to leave, and report the number of requests from time to time."""
    loop = asyncio.get_running_loop()
    reported, report_at = spec.answered, loop.time()
    while not await activity.leaving(LOOK_SECONDS):
        if activity.answered > reported and loop.time() >= report_at:
            # Counts as progress: engine crashes weeks apart must not fail the job.
            reported, report_at = activity.answered, loop.time() + REPORT_SECONDS
            reporter.progress(reported, 0)
        reason = reason_to_leave(activity.idle_seconds, spec.idle_seconds, job_dir)
        if reason is not None:
            activity.leave(reason)
    reporter.message(f"Serving ends: {activity.reason}")


def reason_to_leave(idle: float, limit: float, job_dir: Path) -> str | None:
    """Why a serving ends after this many idle seconds; None if it continues."""
    if is_kept_warm(job_dir):
        return None
    if idle >= limit:
        return f"no request for {limit:g} s"
    if idle >= YIELD_SECONDS and others_wait(job_dir):
        return "it was idle, and other jobs wait for its devices"
    return None


async def _run(context: ChildContext) -> JsonObject:
    spec = ServeSpec.model_validate_json((context.job_dir / SPEC).read_bytes())
    result = await serve(spec, context)
    return result.model_dump(mode="json")


if __name__ == "__main__":
    run_child(Path(sys.argv[1]), _run)
