"""The trainer's worker, for fine-tuning and merge jobs: ``python -m services.trainer``."""

from services.core.jobs.queues import MERGE, TRAINING
from services.core.worker.handler import ServedKind
from services.core.worker.main import serve_kinds
from services.core.worker.settings import WorkerSettings
from services.trainer.handler import FineTuningHandler
from services.trainer.merging.handler import MergeHandler


def main() -> None:
    """Serve jobs of both kinds until a signal ends the process."""
    settings = WorkerSettings()
    kinds = [
        ServedKind(MergeHandler(settings), MERGE),
        ServedKind(FineTuningHandler(settings), TRAINING),
    ]
    serve_kinds(kinds, settings)


if __name__ == "__main__":
    main()
