"""The Python client, by resource."""

from typing import Any, Self

from services.contracts.base import Page
from services.contracts.jobs import Job, JobState, Worker
from services.contracts.kinds import KINDS, kind_of
from services.contracts.stack import StackService
from temper.client import pages
from temper.client.alerts import Alerts, Webhooks
from temper.client.campaigns import Campaigns
from temper.client.chat import Chat
from temper.client.datasets import Datasets
from temper.client.files import Files
from temper.client.jobs import (
    Batches,
    Checks,
    Downloads,
    Evaluations,
    Exports,
    FineTuning,
    Indexing,
    JobResource,
    Jobs,
    Merges,
    Rollouts,
    Servings,
)
from temper.client.models import Models
from temper.client.notes import Notes
from temper.client.trajectories import Trajectories
from temper.client.transport import Transport

DEFAULT_URL = "http://127.0.0.1:8080"


class Temper:
    """A client of one gateway. It pools connections: close it, or use it in a ``with``.

    Every call has a time limit. Reads, and creating calls under an idempotency key, are retried
    while the gateway is unreachable. Errors are `temper.client.errors.ClientError`.
    """

    def __init__(self, base_url: str = DEFAULT_URL, api_key: str | None = None) -> None:
        self._transport = Transport(base_url, api_key)
        self.files = Files(self._transport)
        self.models = Models(self._transport)
        self.fine_tuning = FineTuning(self._transport)
        self.evaluations = Evaluations(self._transport)
        self.rollouts = Rollouts(self._transport)
        self.trajectories = Trajectories(self._transport)
        self.batches = Batches(self._transport)
        self.indexing = Indexing(self._transport)
        self.checks = Checks(self._transport)
        self.merges = Merges(self._transport)
        self.exports = Exports(self._transport)
        self.downloads = Downloads(self._transport)
        self.campaigns = Campaigns(self._transport)
        self.datasets = Datasets(self._transport)
        self.servings = Servings(self._transport)
        self.chat = Chat(self._transport)
        self.jobs = Jobs(self._transport)
        self.notes = Notes(self._transport)
        self.alerts = Alerts(self._transport)
        self.webhooks = Webhooks(self._transport)
        for kind in KINDS.values():
            # A kind without calls of its own needs no class.
            if kind.attribute not in vars(self):
                setattr(self, kind.attribute, JobResource(self._transport, kind.name))

    def of_kind(self, kind: str) -> JobResource[Any, Any]:
        """Return the jobs of a kind; raises `KeyError` if this client does not know it."""
        found: JobResource[Any, Any] = getattr(self, kind_of(kind).attribute)
        return found

    def detailed(self, job: Job) -> JobState:
        """Return a job with the fields of its kind; the job itself if this client is older than
        the kind."""
        if job.kind not in KINDS:
            return job
        from temper.client.batch_job import BatchJob

        own = self.of_kind(job.kind).get(job.id)
        return own if isinstance(own, JobState) else BatchJob(batch=own, **dict(job))

    @property
    def base_url(self) -> str:
        """The gateway's URL."""
        return self._transport.base_url

    def is_ready(self) -> bool:
        """Whether the gateway and everything it depends on are ready."""
        return self._transport.status_of("/readyz") == 200

    def workers(self) -> list[Worker]:
        """Return the workers with a recent heartbeat."""
        return list(pages.every(self._transport, "/v1/workers", Page[Worker], {}))

    def services(self) -> list[StackService]:
        """Return the services of the stack if `temper up` started the gateway, else none."""
        return list(pages.every(self._transport, "/v1/services", Page[StackService], {}))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
