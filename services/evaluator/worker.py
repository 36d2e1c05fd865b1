"""The evaluator's worker process: evaluations and rollouts."""

from services.common.queue.names import EVALUATION, ROLLOUT
from services.common.worker.handler import ServedKind
from services.common.worker.main import serve_kinds
from services.common.worker.settings import WorkerSettings
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
