"""The child that plays the rollouts of a job.

``python -m services.evaluator.rollout.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``trajectories.jsonl`` and its index, and ends with
``trajectories.parquet`` and the statistics, or fails with its cause. It may be killed at any time
and started again on the same folder.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from services.contracts.errors import TemperError
from services.contracts.rollouts import RolloutStatistics
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.spec import ENDPOINT_KEY
from services.evaluator.rollout.attempt import Environment, play
from services.evaluator.rollout.engine import open_engine
from services.evaluator.rollout.spec import SPEC, RolloutSpec
from services.rewards import RewardEnvironment
from services.rollouts.tools import ToolEnvironment


def main(job_dir: Path) -> None:
    """Play what the job directory asks for; the outcome is in its result.json."""
    # Keys are taken out, so that a server started for the job does not inherit them.
    endpoint_key = os.environ.pop(ENDPOINT_KEY, None)
    environment = Environment(
        ToolEnvironment.take_from(os.environ), RewardEnvironment.take_from(os.environ)
    )
    reporter = Reporter(job_dir)
    spec = RolloutSpec.model_validate_json((job_dir / SPEC).read_bytes())
    try:
        statistics = asyncio.run(_play(spec, job_dir, environment, reporter, endpoint_key))
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    else:
        reporter.finish(statistics=statistics.model_dump(mode="json"))


async def _play(
    spec: RolloutSpec,
    job_dir: Path,
    environment: Environment,
    reporter: Reporter,
    endpoint_key: str | None,
) -> RolloutStatistics:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a running loop
    # Ends in order: trajectories are synced, and a server of the job is stopped.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    engine = open_engine(spec, job_dir, reporter, endpoint_key)
    return await play(spec, job_dir, engine, environment, reporter)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
