"""Events for webhooks: queued with what they tell of, signed, delivered, and tried again."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
import pytest
from pydantic import ValidationError
from sqlalchemy import select, update

from services.api.webhooks import sender
from services.api.webhooks.sender import RETRY_SECONDS, WebhookSender
from services.api.webhooks.service import create_webhook, latest_deliveries, remove_webhook
from services.contracts.jobs import JobStatus
from services.contracts.webhooks import CreatedWebhook, CreateWebhook, EventType, WebhookDelivery
from services.core.db.engine import Database
from services.core.db.tables import WebhookDeliveryRow
from services.jobs.store import get_job, move_job
from tests.unit.jobs.machine import new_job


@dataclass
class Receiver:
    """An endpoint that answers with ``status`` and keeps what it gets."""

    url: str = ""
    status: int = 200
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(kept.status)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        kept.url = f"http://127.0.0.1:{server.server_address[1]}/hook?a=b"
        yield kept
        server.shutdown()
        thread.join()


def create(database: Database, url: str, **fields: Any) -> CreatedWebhook:
    with database.write() as session:
        return create_webhook(session, CreateWebhook.model_validate({"url": url, **fields}))


def deliver(database: Database, *, private_allowed: bool = True) -> int:
    sending = WebhookSender(database, private_allowed=private_allowed)
    with httpx.Client(trust_env=False) as client:
        return sending.deliver_due(client)


def cancel(database: Database) -> str:
    job = new_job(database)
    with database.write() as session:
        move_job(session, job, JobStatus.CANCELLED, "Cancelled")
    return job.id


def deliveries(database: Database, webhook: CreatedWebhook) -> list[WebhookDelivery]:
    with database.read() as session:
        return latest_deliveries(session, webhook.id, 100)


def test_the_end_of_a_job_is_sent_signed_as_openai_verifies_it(
    database: Database, receiver: Receiver
) -> None:
    webhook = create(database, receiver.url)
    job_id = cancel(database)

    deliver(database)

    [(headers, body)] = receiver.requests
    client = openai.OpenAI(api_key="none", webhook_secret=webhook.secret)
    client.webhooks.verify_signature(body, headers)
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.verify_signature(body + b" ", headers)
    event = json.loads(body)
    assert headers["webhook-id"] == event["id"]
    assert (event["type"], event["data"]["id"]) == ("job.cancelled", job_id)
    assert [each.status for each in deliveries(database, webhook)] == ["delivered"]


def test_a_webhook_gets_only_the_events_it_wants(database: Database, receiver: Receiver) -> None:
    create(database, receiver.url, events=[EventType.JOB_FAILED])
    cancel(database)

    assert deliver(database) == 0


def test_an_event_of_a_transaction_that_is_rolled_back_is_not_sent(
    database: Database, receiver: Receiver
) -> None:
    create(database, receiver.url)
    job = new_job(database)

    with pytest.raises(RuntimeError, match="undo"), database.write() as session:
        move_job(session, job, JobStatus.CANCELLED, "Cancelled")
        raise RuntimeError("undo")

    with database.read() as session:
        assert get_job(session, job.id).status is not JobStatus.CANCELLED
    assert deliver(database) == 0


def test_slack_gets_text(database: Database, receiver: Receiver) -> None:
    create(database, receiver.url, format="slack")
    job_id = cancel(database)

    deliver(database)

    [(_, body)] = receiver.requests
    assert json.loads(body) == {"text": f"job.cancelled: {job_id}: Cancelled"}


@pytest.mark.parametrize(("status", "words"), [(500, "answered 500"), (302, "not followed")])
def test_a_refused_delivery_is_tried_again_with_the_same_id_until_it_fails(
    database: Database, receiver: Receiver, status: int, words: str
) -> None:
    webhook = create(database, receiver.url)
    receiver.status = status
    cancel(database)

    for attempt in range(len(RETRY_SECONDS) + 1):
        assert deliver(database) == 1
        assert deliver(database) == 0  # not before its time
        [delivery] = deliveries(database, webhook)
        assert words in str(delivery.last_error)
        assert delivery.attempts == attempt + 1
        with database.write() as session:
            waiting = WebhookDeliveryRow.next_attempt_at.is_not(None)
            due = update(WebhookDeliveryRow).where(waiting)
            session.execute(due.values(next_attempt_at=time.time() - 1))

    assert delivery.status == "failed"
    assert deliver(database) == 0
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert len(receiver.requests) == len(RETRY_SECONDS) + 1


def test_an_attempt_of_a_gateway_that_died_is_made_by_another(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(database, receiver.url)
    cancel(database)
    monkeypatch.setattr(sender, "CLAIM_SECONDS", -1.0)
    dying = WebhookSender(database, private_allowed=True)
    assert len(dying._claim()) == 1

    assert deliver(database) == 1
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_private_addresses_are_refused_unless_the_operator_allows_them(
    database: Database, receiver: Receiver, host: str
) -> None:
    url = receiver.url.replace("127.0.0.1", host)
    webhook = create(database, url)
    cancel(database)

    deliver(database, private_allowed=False)

    assert receiver.requests == []
    [delivery] = deliveries(database, webhook)
    assert "no public address" in str(delivery.last_error)


def test_deleting_a_webhook_drops_what_it_waits_for(database: Database, receiver: Receiver) -> None:
    webhook = create(database, receiver.url)
    cancel(database)
    with database.write() as session:
        remove_webhook(session, webhook.id)

    assert deliver(database) == 0
    with database.read() as session:
        assert session.scalars(select(WebhookDeliveryRow)).all() == []


@pytest.mark.parametrize(
    "url",
    ["ftp://x/y", "https://user:word@x/y", "https://x/y#z", "nonsense", "https://x/" + "y" * 2000],
)
def test_an_unusable_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="url"):
        CreateWebhook.model_validate({"url": url})
