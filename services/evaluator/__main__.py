"""The worker of evaluations, rollouts, batches and servings: ``python -m services.evaluator``."""

from services.evaluator.batch.handler import BatchHandler
from services.evaluator.evaluation.handler import EvaluationHandler
from services.evaluator.rollout.handler import RolloutHandler
from services.evaluator.serve.handler import ServeHandler
from services.jobs.queues import BATCH, EVALUATION, ROLLOUT, SERVE
from services.jobs.worker.handler import ServedKind
from services.jobs.worker.main import serve_kinds
from services.jobs.worker.settings import WorkerSettings


def main() -> None:
    """Serve jobs of these kinds until a signal ends the process."""
    settings = WorkerSettings()
    kinds = [
        ServedKind(RolloutHandler(settings), ROLLOUT),
        ServedKind(EvaluationHandler(settings), EVALUATION),
        ServedKind(BatchHandler(settings), BATCH),
        ServedKind(ServeHandler(settings), SERVE),
    ]
    serve_kinds(kinds, settings)


if __name__ == "__main__":
    main()
