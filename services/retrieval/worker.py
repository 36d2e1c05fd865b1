"""The indexer: the worker process of indexing jobs. ``python -m services.retrieval.worker``."""

from services.core.jobs.queues import INDEXING
from services.core.worker.main import run_worker
from services.core.worker.settings import WorkerSettings
from services.retrieval.handler import IndexingHandler
from services.retrieval.index_settings import IndexSettings


class IndexerSettings(IndexSettings, WorkerSettings):
    """A worker's settings, and where the indexes lie."""


def main() -> None:
    """Serve indexing jobs until a signal ends the process."""
    settings = IndexerSettings()
    run_worker(IndexingHandler(settings, settings.indexes_folder), INDEXING, settings)


if __name__ == "__main__":
    main()
