"""Rollout jobs."""

from pathlib import Path
from urllib.parse import quote

from services.contracts.base import Page
from services.contracts.rollouts import CreateRollout, Rollout
from temper.client import pages
from temper.client.downloads import Progress, download
from temper.client.transport import Transport

PATH = "/v1/rollouts"


class Rollouts:
    """/v1/rollouts. Follow jobs through `Jobs`; `Trajectories` shows what was said."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, request: CreateRollout) -> Rollout:
        """Submit a job."""
        return self._transport.post(PATH, Rollout, request)

    def get(self, job_id: str) -> Rollout:
        """Return one job, with its statistics once it has succeeded."""
        return self._transport.get(_path(job_id), Rollout)

    def page(self, *, most: int = 20) -> Page[Rollout]:
        """Return the newest jobs, ``most`` at most."""
        return pages.page(self._transport, PATH, Page[Rollout], {}, most)

    def cancel(self, job_id: str) -> Rollout:
        """Ask for a job to end; its status is final once its processes are gone."""
        return self._transport.post(f"{_path(job_id)}/cancel", Rollout)

    def download(self, job_id: str, target: Path, progress: Progress | None = None) -> None:
        """Write the trajectories of a job that has succeeded to ``target``, as Parquet."""
        download(self._transport, f"{_path(job_id)}/content", target, progress)


def _path(job_id: str) -> str:
    return f"{PATH}/{quote(job_id, safe='')}"
