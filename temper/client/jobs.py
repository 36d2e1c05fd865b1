"""Jobs of every kind: list, look at, follow, cancel and wait for them."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from services.contracts.base import Page
from services.contracts.jobs import Event, Job, JobKind, JobStatus
from temper.client import pages
from temper.client.errors import WaitTimedOut
from temper.client.events import EventStream
from temper.client.transport import Transport

PATH = "/v1/jobs"
FIRST_POLL = 0.2
SLOWEST_POLL = 2.0


class Jobs:
    """/v1/jobs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def page(
        self,
        *,
        kind: JobKind | None = None,
        status: JobStatus | None = None,
        metadata: Mapping[str, str] | None = None,
        most: int = 20,
    ) -> Page[Job]:
        """Return the newest jobs, ``most`` at most, that match every filter given."""
        query: dict[str, str | Sequence[str]] = {}
        if metadata:
            query["metadata"] = [f"{key}={value}" for key, value in metadata.items()]
        if kind is not None:
            query["kind"] = kind.value
        if status is not None:
            query["status"] = status.value
        return pages.page(self._transport, PATH, Page[Job], query, most)

    def get(self, job_id: str) -> Job:
        """Return one job, whatever its kind."""
        return self._transport.get(_path(job_id), Job)

    def cancel(self, job_id: str) -> Job:
        """Ask for a job to end; its status is final once its processes are gone."""
        return self._transport.post(f"{_path(job_id)}/cancel", Job)

    def events(self, job_id: str, *, most: int = 100) -> Page[Event]:
        """Return the newest events of a job, newest first, ``most`` at most."""
        return pages.page(self._transport, f"{_path(job_id)}/events", Page[Event], {}, most)

    def follow(
        self, job_id: str, *, after: str | None = None, give_up_after: float = 120.0
    ) -> Iterator[Event]:
        """Yield a job's events from the first, or from after one, until the job is over.

        Broken connections are made again; `Unreachable` is raised once there has been none for
        ``give_up_after`` seconds.
        """
        return iter(EventStream(self._transport, f"{_path(job_id)}/events", after, give_up_after))

    def wait(self, job_id: str, *, timeout: float | None = None) -> Job:
        """Return the job once its status is final; raise `WaitTimedOut` after ``timeout``."""
        deadline = time.monotonic() + timeout if timeout is not None else math.inf
        pause = FIRST_POLL
        while not (job := self.get(job_id)).status.is_final:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimedOut(f"{job_id} is still {job.status} after {timeout:g} s")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, SLOWEST_POLL)
        return job


def _path(job_id: str) -> str:
    return f"{PATH}/{quote(job_id, safe='')}"
