"""Campaigns as a worker runs them: a thread takes their steps, without a child or a device."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from services.campaigns.settings import CampaignSettings
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database, now
from services.core.db.tables import JobRow
from services.jobs.claims import Claim, Claimant, ClaimStage, take_job
from services.jobs.devices import HostDevices
from services.jobs.job import job_from_row
from services.jobs.queues import CAMPAIGN, QueueNames
from services.jobs.worker.main import serve


class CampaignWork:
    """Claims campaigns that are due, and takes their steps in the thread that claimed them."""

    def __init__(self, database: Database, settings: CampaignSettings) -> None:
        self._database = database
        self._settings = settings

    @property
    def queues(self) -> Sequence[QueueNames]:
        """The queues of campaigns."""
        return [CAMPAIGN]

    @property
    def devices(self) -> HostDevices:
        """None: the jobs of a campaign hold them."""
        return HostDevices(self._settings.host_name or socket.gethostname(), (), 0)

    @property
    def slots(self) -> int:
        """How many campaigns take a step concurrently."""
        return self._settings.campaign_slots

    def claim(self, claimant: Claimant) -> Claim | None:
        """Claim the next campaign that is due."""
        with self._database.write() as session:
            return claim_step(session, claimant)

    def run(self, claim: Claim, deadline: float, stopping: threading.Event, notes: Path) -> None:  # noqa: ARG002 - without a child there is no process tree to note
        """Let a claimed campaign take its turn."""
        from services.campaigns.turn import CampaignTurn  # noqa: PLC0415 - loaded with the first campaign

        CampaignTurn(self._database, self._settings).take(claim, deadline, stopping)


def claim_step(session: Session, claimant: Claimant) -> Claim | None:
    """Claim the queued campaign that has waited longest among those that are due."""
    query = (
        select(JobRow)
        .where(
            JobRow.queue == CAMPAIGN.work,
            JobRow.status == JobStatus.QUEUED.value,
            or_(JobRow.not_before.is_(None), JobRow.not_before <= now(session)),
        )
        .order_by(JobRow.priority.desc(), JobRow.updated_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = session.scalar(query)
    if row is None:
        return None
    job = job_from_row(row)
    return Claim(take_job(session, job, claimant, attempt=job.attempt or 1), ClaimStage.WORK)


def serve_campaigns(settings: CampaignSettings) -> None:
    """Serve campaigns until a signal stops the process.

    Steps under way then end at their last recorded effect, and their campaigns are requeued.
    """

    @contextmanager
    def open_work(database: Database) -> Iterator[CampaignWork]:
        work = CampaignWork(database, settings)
        if settings.proxy_url is None:
            yield work
            return
        from services.campaigns.scripts.proxy import serving_proxy  # noqa: PLC0415 - as above

        with serving_proxy(database, settings):
            yield work

    serve(open_work, settings)
