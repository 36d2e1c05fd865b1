"""Events for webhooks: queued with what they tell of, signed, delivered, and tried again."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openai
import pytest
from pydantic import ValidationError
from sqlalchemy import select, update

from services.api.webhooks import posting, sender
from services.api.webhooks.sender import PER_ENDPOINT, RETRY_SECONDS, WebhookSender
from services.api.webhooks.service import create_webhook, latest_deliveries, remove_webhook
from services.contracts.jobs import JobStatus
from services.contracts.webhooks import CreatedWebhook, CreateWebhook, EventType, WebhookDelivery
from services.core.db.engine import BUSY_TIMEOUT_SECONDS, Database
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
    return asyncio.run(deliver_all(database, private_allowed=private_allowed))


async def deliver_all(database: Database, *, private_allowed: bool = True) -> int:
    sending = WebhookSender(database, private_allowed=private_allowed)
    async with httpx.AsyncClient(trust_env=False) as client:
        return await sending.deliver_due(client)


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
    with monkeypatch.context() as patch:
        patch.setattr(sender, "CLAIM_SECONDS", -1.0)
        dying = WebhookSender(database, private_allowed=True)
        assert len(dying._claim_beside([], Counter())) == 1

    assert deliver(database) == 1
    assert len(receiver.requests) == 1


@contextmanager
def endpoint(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that hands every connection to ``serve``, in a thread each."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            try:
                while True:
                    connection, _ = listening.accept()
                    threads.append(threading.Thread(target=serve, args=(connection,)))
                    threads[-1].start()
            except OSError:
                return

        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def test_an_endpoint_that_does_not_answer_delays_no_other(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "ATTEMPT_SECONDS", 600.0)
    arrived: list[socket.socket] = []
    reads = threading.Semaphore(0)
    released = threading.Event()

    def be_silent(connection: socket.socket) -> None:
        with closing(connection):
            arrived.append(connection)
            reads.release()
            assert released.wait(60)

    with endpoint(be_silent) as url:
        silent = create(database, url)
        for _ in range(3 * PER_ENDPOINT):
            cancel(database)
        other = create(database, receiver.url)
        for _ in range(3 * PER_ENDPOINT):
            cancel(database)
        sending = threading.Thread(target=deliver, args=(database,))
        sending.start()
        for _ in range(PER_ENDPOINT):
            assert reads.acquire(timeout=60)
        waited = threading.Event()
        while {each.status for each in deliveries(database, other)} != {"delivered"}:
            assert not waited.wait(0.01)
        assert len(arrived) == PER_ENDPOINT
        assert {each.status for each in deliveries(database, silent)} == {"pending"}
        released.set()
        sending.join(60)

    assert not sending.is_alive()


def test_an_attempt_has_a_deadline_however_its_answer_drips(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "ATTEMPT_SECONDS", 0.5)
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        with closing(connection):
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while not ended.wait(0.05):
                    connection.sendall(b"a")
            except OSError:
                ended.set()

    with endpoint(drip) as url:
        webhook = create(database, url)
        cancel(database)
        assert deliver(database) == 1
        assert ended.wait(60)

    [delivery] = deliveries(database, webhook)
    assert delivery.last_error == "no answer within 0.5 s"
    assert (delivery.status, delivery.attempts) == ("pending", 1)


def test_claims_outlive_attempts() -> None:
    assert posting.ATTEMPT_SECONDS + BUSY_TIMEOUT_SECONDS < sender.CLAIM_SECONDS


def test_an_attempt_that_outlived_its_claim_does_not_undo_the_next_one(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = create(database, receiver.url)
    cancel(database)
    late = WebhookSender(database, private_allowed=True)
    with monkeypatch.context() as patch:
        patch.setattr(sender, "CLAIM_SECONDS", -1.0)
        [(delivery, _)] = late._claim_beside([], Counter())
    deliver(database)

    late._record(delivery, "no answer")

    assert [each.status for each in deliveries(database, webhook)] == ["delivered"]


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
