"""Alerts, and the webhooks that are told of them and of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from pydantic import AnyHttpUrl

from services.contracts.base import Deleted, Page
from services.contracts.webhooks import EventType
from temper.client import pages
from temper.client.transport import Transport

if TYPE_CHECKING:
    from services.contracts.alerts import Alert
    from services.contracts.webhooks import CreatedWebhook, Webhook, WebhookDelivery


class Alerts:
    """/v1/alerts."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def page(
        self, job_id: str | None = None, *, resolved: bool = False, most: int = 20
    ) -> Page[Alert]:
        """Return up to ``most`` alerts, newest first; of one job only, if given."""
        from services.contracts.alerts import Alert

        query = {"resolved": str(resolved).lower()} | ({"job": job_id} if job_id else {})
        return pages.page(self._transport, "/v1/alerts", Page[Alert], query, most)


class Webhooks:
    """/v1/webhooks."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        url: str,
        events: Sequence[EventType] = tuple(EventType),
        body_format: Literal["standard", "slack"] = "standard",
    ) -> CreatedWebhook:
        """Create a webhook; its secret is returned only here."""
        from services.contracts.webhooks import CreatedWebhook, CreateWebhook

        body = CreateWebhook(url=AnyHttpUrl(url), events=list(events), format=body_format)
        return self._transport.post("/v1/webhooks", CreatedWebhook, body)

    def page(self, *, most: int = 20) -> Page[Webhook]:
        """Return up to ``most`` webhooks, newest first."""
        from services.contracts.webhooks import Webhook

        return pages.page(self._transport, "/v1/webhooks", Page[Webhook], {}, most)

    def deliveries(self, webhook_id: str, *, most: int = 20) -> Page[WebhookDelivery]:
        """Return the latest events for a webhook, newest first, 100 at most."""
        from services.contracts.webhooks import WebhookDelivery

        query = {"limit": str(min(most, 100))}
        path = f"{_path(webhook_id)}/deliveries"
        return self._transport.get(path, Page[WebhookDelivery], query)

    def delete(self, webhook_id: str) -> Deleted:
        """Delete a webhook."""
        return self._transport.delete(_path(webhook_id), Deleted)


def _path(webhook_id: str) -> str:
    return f"/v1/webhooks/{quote(webhook_id, safe='')}"
