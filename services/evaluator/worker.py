"""The evaluator's worker process: evaluations and rollouts."""

from services.core.jobs.queues import EVALUATION, ROLLOUT
from services.core.worker.handler import ServedKind
from services.core.worker.main import serve_kinds
from services.core.worker.settings import WorkerSettings
from services.evaluator.handler import EvaluationHandler
from services.evaluator.rollout_handler import RolloutHandler


def main() -> None:
    """Serve jobs of both kinds until a signal ends the process."""
    settings = WorkerSettings()
    kinds = [
        ServedKind(RolloutHandler(settings), ROLLOUT),
        ServedKind(EvaluationHandler(settings), EVALUATION),
    ]
    serve_kinds(kinds, settings)
