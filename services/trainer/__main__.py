"""The trainer's worker, for fine-tuning jobs: ``python -m services.trainer``."""

from services.core.jobs.queues import TRAINING
from services.core.worker.main import run_worker
from services.core.worker.settings import WorkerSettings
from services.trainer.handler import FineTuningHandler


def main() -> None:
    """Serve fine-tuning jobs until a signal ends the process."""
    settings = WorkerSettings()
    run_worker(FineTuningHandler(settings), TRAINING, settings)


if __name__ == "__main__":
    main()
