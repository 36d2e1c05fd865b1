"""Jobs that build indexes."""

from urllib.parse import quote

from services.contracts.base import Page
from services.contracts.indexes import CreateIndexingJob, IndexingJob
from temper.client import pages
from temper.client.transport import Transport

PATH = "/v1/indexing/jobs"


class Indexing:
    """/v1/indexing/jobs. Follow and wait for jobs through `Jobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, request: CreateIndexingJob) -> IndexingJob:
        """Submit a job."""
        return self._transport.post(PATH, IndexingJob, request)

    def get(self, job_id: str) -> IndexingJob:
        """Return one job, with its metrics once it has succeeded."""
        return self._transport.get(_path(job_id), IndexingJob)

    def page(self, *, most: int = 20) -> Page[IndexingJob]:
        """Return the newest jobs, ``most`` at most."""
        return pages.page(self._transport, PATH, Page[IndexingJob], {}, most)

    def cancel(self, job_id: str) -> IndexingJob:
        """Ask for a job to end; its status is final once its processes are gone."""
        return self._transport.post(f"{_path(job_id)}/cancel", IndexingJob)


def _path(job_id: str) -> str:
    return f"{PATH}/{quote(job_id, safe='')}"
