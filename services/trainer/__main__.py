"""The worker of fine-tuning, check, merge, export and download jobs.

python -m services.trainer
"""

from services.jobs.queues import CHECK, DOWNLOAD, EXPORT, MERGE, TRAINING
from services.jobs.worker.handler import ServedKind
from services.jobs.worker.main import serve_kinds
from services.jobs.worker.settings import WorkerSettings
from services.trainer.checking.handler import CheckHandler
from services.trainer.downloading.handler import DownloadHandler
from services.trainer.exporting.handler import ExportHandler
from services.trainer.handler import FineTuningHandler
from services.trainer.merging.handler import MergeHandler


def main() -> None:
    """Serve jobs of these kinds until a signal stops the process."""
    settings = WorkerSettings()
    kinds = [
        ServedKind(CheckHandler(settings), CHECK),
        ServedKind(DownloadHandler(settings), DOWNLOAD),
        ServedKind(ExportHandler(settings), EXPORT),
        ServedKind(MergeHandler(settings), MERGE),
        ServedKind(FineTuningHandler(settings), TRAINING),
    ]
    serve_kinds(kinds, settings)


if __name__ == "__main__":
    main()
