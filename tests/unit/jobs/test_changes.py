"""Changes of a database that other connections made."""

from collections.abc import Iterator

import pytest

from services.core.db import changes as module
from services.core.db.changes import Changes
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.jobs.queues import add_wake_up, pending_wake_ups
from tests.support.servers import running_postgres
from tests.support.waiting import wait_for


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.variant)])
def followed(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "sqlite":
        yield request.getfixturevalue("database")
        return
    with running_postgres() as url:
        database = Database(url)
        migrate(database)
        yield database
        database.close()


def test_commits_are_seen_once_and_reads_are_not(
    followed: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FALLBACK_SECONDS", 3600.0)
    changes = Changes(followed)
    assert changes.seen()  # what came before it
    assert not changes.seen()

    with followed.write() as session:
        add_wake_up(session, "training")
        session.flush()
        assert not changes.seen()  # not committed yet
    wait_for(changes.seen, "the commit is seen")
    with followed.read() as session:
        assert len(pending_wake_ups(session)) == 1
    assert not changes.seen()
    changes.close()


def test_a_change_is_possible_after_a_while_whatever_was_seen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = Changes(database)
    assert changes.seen()
    assert not changes.seen()

    monkeypatch.setattr("services.core.db.changes.time.monotonic", lambda: 1e12)

    assert changes.seen()
    changes.close()


def test_a_database_that_cannot_be_followed_may_have_changed() -> None:
    changes = Changes(Database("postgresql+psycopg://nobody@127.0.0.1:1/none"))

    assert changes.seen()
    assert changes.seen()
