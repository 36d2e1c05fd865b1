"""The trainer's worker process."""

from services.core.jobs.queues import TRAINING
from services.core.worker.main import run_worker
from services.core.worker.settings import WorkerSettings
from services.trainer.handler import FineTuningHandler


def main() -> None:
    """Serve fine-tuning jobs until a signal ends the process."""
    settings = WorkerSettings()
    run_worker(FineTuningHandler(settings), TRAINING, settings)
