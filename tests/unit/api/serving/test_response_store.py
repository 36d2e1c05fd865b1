"""Stored responses: who may write them, and how long they are kept."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from services.api.responses import store
from services.api.responses.expiry import ResponseExpiry
from services.api.responses.store import MAX_ATTEMPTS, End, Progress
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import ResponseRow
from tests.support.servers import running_postgres

DAY = 86_400.0
LARGE = 1 << 30
LEASE = 60.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        database = Database(url)
        migrate(database)
        database.close()
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.variant)])
def database(request: pytest.FixtureRequest, tmp_path: Path, migrated: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        shutil.copy(migrated, tmp_path / "temper.db")
        database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    else:
        database = Database(request.getfixturevalue("postgres"))
    yield database
    with database.write() as session:
        session.execute(delete(ResponseRow))
    database.close()


def add(database: Database, identity: str, **fields: Any) -> None:
    """A background response that waits, or one with other fields."""
    values = {
        "principal": "key",
        "status": "queued",
        "background": True,
        "streamed": True,
        "request": {"model": "base"},
        "input": [],
        "output": [],
        "attempt": 0,
        "bytes": 0,
        "created_at": time.time(),
        **fields,
    }
    with database.write() as session:
        session.add(ResponseRow(id=identity, **values))


def kept(database: Database) -> dict[str, str]:
    with database.read() as session:
        rows = session.scalars(select(ResponseRow).order_by(ResponseRow.seq))
        return {row.id: row.status for row in rows}


def test_a_response_has_one_writer_and_one_end(database: Database) -> None:
    add(database, "r")
    with database.write() as session:
        [first] = store.claim(session, "gateway-1", -LEASE, 10)  # its lease has expired at once
    with database.write() as session:
        assert store.append_events(session, first, 0, ['{"a":1}', '{"b":2}'])
        [second] = store.claim(session, "gateway-2", LEASE, 10)
        assert store.claim(session, "gateway-3", LEASE, 10) == []

    with database.write() as session:
        late = Progress(output=[{"type": "message"}])
        assert not store.save(session, first, late)
        assert not store.append_events(session, first, 2, ["{}"])
        assert not store.finish(session, first, End("failed"))
        assert store.finish(session, second, End("completed"), late)
        assert not store.finish(session, second, End("completed"), late)
        assert store.next_event(session, "r") == 2
        assert store.events_after(session, "r", 0) == ['{"b":2}']

    assert kept(database) == {"r": "completed"}


def test_a_response_that_ends_gateways_fails(database: Database) -> None:
    add(database, "r")
    for _ in range(MAX_ATTEMPTS):
        with database.write() as session:
            assert len(store.claim(session, "gateway", -LEASE, 10)) == 1

    with database.write() as session:
        assert store.claim(session, "gateway", LEASE, 10) == []

    assert kept(database) == {"r": "failed"}


def test_old_responses_are_deleted_and_those_under_way_kept(database: Database) -> None:
    old = time.time() - 3 * DAY
    add(database, "old", status="completed", created_at=old)
    add(database, "running", created_at=old)
    add(database, "new", status="completed")

    ResponseExpiry(days=2.0, max_bytes=LARGE).apply(database)

    assert list(kept(database)) == ["running", "new"]


def test_the_oldest_are_deleted_when_all_are_too_large(database: Database) -> None:
    begin = time.time() - 100
    for number in range(5):
        add(database, f"r{number}", status="completed", bytes=10, created_at=begin + number)

    ResponseExpiry(days=30.0, max_bytes=25).apply(database)

    assert list(kept(database)) == ["r3", "r4"]


def test_a_response_fails_whose_gateway_is_gone_with_its_client(database: Database) -> None:
    waited = {"background": False, "status": "in_progress"}
    add(database, "lost", **waited, lease_expires_at=time.time() - 1)
    add(database, "held", **waited, lease_expires_at=time.time() + LEASE)

    ResponseExpiry(days=30.0, max_bytes=LARGE).apply(database)

    assert kept(database) == {"lost": "failed", "held": "in_progress"}
