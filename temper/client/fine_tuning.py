"""Fine-tuning jobs."""

from urllib.parse import quote

from services.contracts.base import Page
from services.contracts.fine_tuning import Checkpoint, CreateFineTuningJob, FineTuningJob
from temper.client import pages
from temper.client.transport import Transport

PATH = "/v1/fine_tuning/jobs"


class FineTuning:
    """/v1/fine_tuning/jobs. Follow and wait for jobs through `Jobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, request: CreateFineTuningJob) -> FineTuningJob:
        """Submit a job."""
        return self._transport.post(PATH, FineTuningJob, request)

    def get(self, job_id: str) -> FineTuningJob:
        """Return one job."""
        return self._transport.get(_path(job_id), FineTuningJob)

    def page(self, *, most: int = 20) -> Page[FineTuningJob]:
        """Return the newest jobs, ``most`` at most."""
        return pages.page(self._transport, PATH, Page[FineTuningJob], {}, most)

    def cancel(self, job_id: str) -> FineTuningJob:
        """Ask for a job to end; its status is final once its processes are gone."""
        return self._transport.post(f"{_path(job_id)}/cancel", FineTuningJob)

    def checkpoints(self, job_id: str, *, most: int = 20) -> Page[Checkpoint]:
        """Return the newest checkpoints of a job, ``most`` at most."""
        return pages.page(
            self._transport, f"{_path(job_id)}/checkpoints", Page[Checkpoint], {}, most
        )


def _path(job_id: str) -> str:
    return f"{PATH}/{quote(job_id, safe='')}"
