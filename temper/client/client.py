"""The Python client, by resource."""

from typing import Self

from services.contracts.base import Page
from services.contracts.jobs import Worker
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
    Evaluations,
    Exports,
    FineTuning,
    Indexing,
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
        self.campaigns = Campaigns(self._transport)
        self.datasets = Datasets(self._transport)
        self.servings = Servings(self._transport)
        self.chat = Chat(self._transport)
        self.jobs = Jobs(self._transport)
        self.notes = Notes(self._transport)
        self.alerts = Alerts(self._transport)
        self.webhooks = Webhooks(self._transport)

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
