"""The trainer's worker process."""

from services.common.queue.names import TRAINING
from services.common.worker.main import run_worker
from services.common.worker.settings import WorkerSettings
from services.trainer.handler import FineTuningHandler


def main() -> None:
    """Serve fine-tuning jobs until a signal ends the process."""
    settings = WorkerSettings()
    run_worker(FineTuningHandler(settings), TRAINING, settings)
