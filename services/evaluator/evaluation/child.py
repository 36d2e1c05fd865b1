"""The child that evaluates a model.

``python -m services.evaluator.evaluation.child <job_dir>`` in the core environment. It reads
``spec.json``, appends to ``results.jsonl`` and ends with the metrics, or fails with its cause. It
may be killed at any time and started again on the same folder.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from services.contracts.errors import TemperError
from services.contracts.evaluations import EvaluationMetrics
from services.core.process.reporter import Reporter
from services.evaluator.evaluation.engine import open_engine
from services.evaluator.evaluation.evaluate import evaluate
from services.evaluator.evaluation.spec import ENDPOINT_KEY, SPEC, EvaluationSpec


def main(job_dir: Path) -> None:
    """Evaluate what the job directory asks for; the outcome is in its result.json."""
    # Taken out, so that a server started for the job does not inherit it.
    endpoint_key = os.environ.pop(ENDPOINT_KEY, None)
    reporter = Reporter(job_dir)
    spec = EvaluationSpec.model_validate_json((job_dir / SPEC).read_bytes())
    try:
        metrics = asyncio.run(_evaluate(spec, job_dir, reporter, endpoint_key))
    except TemperError as error:
        reporter.fail(error.code, error.message, error.param)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    else:
        reporter.finish(metrics=metrics.model_dump(mode="json"))


async def _evaluate(
    spec: EvaluationSpec, job_dir: Path, reporter: Reporter, endpoint_key: str | None
) -> EvaluationMetrics:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this is a coroutine of a running loop
    # Ends in order: rows are synced, and a server of the job is stopped.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    engine = open_engine(spec, job_dir, reporter, endpoint_key)
    return await evaluate(spec, job_dir, engine, reporter)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
