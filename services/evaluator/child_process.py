"""The main function of the evaluator's child processes: environment, signals, the outcome."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.core.operator_environment import OperatorEnvironment
from services.core.process.outages import Outage, pause_for
from services.core.process.reporter import Reporter
from services.evaluator.serving import ENDPOINT_KEY


@dataclass(frozen=True)
class ChildContext:
    """Inputs of a child besides its specification. ``endpoint_key`` is for a remote model only."""

    job_dir: Path
    reporter: Reporter
    environment: OperatorEnvironment
    endpoint_key: str | None = field(repr=False)


def run_child(job_dir: Path, work: Callable[[ChildContext], Awaitable[JsonObject]]) -> None:
    """Do the work of a job directory; what ``work`` returns, or its error, goes to result.json.

    SIGTERM cancels the work, so that it ends in order: rows are synced, servers are stopped.
    """
    # Keys are removed from the environment, so that a server started for the job inherits none.
    endpoint_key = os.environ.pop(ENDPOINT_KEY, None)
    environment = OperatorEnvironment.take_from(os.environ)
    context = ChildContext(job_dir, Reporter(job_dir), environment, endpoint_key)
    reporter = context.reporter
    try:
        result = asyncio.run(_until_terminated(work(context)))
    except Outage as outage:
        pause_for(outage, job_dir, reporter)
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param, retryable=error.retryable)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    else:
        reporter.finish(**result)


async def _until_terminated(work: Awaitable[JsonObject]) -> JsonObject:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a running loop
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
