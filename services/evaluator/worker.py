"""The evaluator's worker process."""

from services.common.queue.names import EVALUATION
from services.common.worker.main import run_worker
from services.common.worker.settings import WorkerSettings
from services.evaluator.handler import EvaluationHandler


def main() -> None:
    """Serve evaluation jobs until a signal ends the process."""
    settings = WorkerSettings()
    run_worker(EvaluationHandler(settings), EVALUATION, settings)
