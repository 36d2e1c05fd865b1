"""Changes of a database that other connections made."""

import resource
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from services.core import changes as module
from services.core.changes import Changes
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.jobs.queues import add_wake_up, pending_wake_ups
from tests.support.servers import running_postgres

LONG = 60.0


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


def test_announced_commits_are_heard_once_and_nothing_else(followed: Database) -> None:
    changes = Changes(followed)
    assert changes.wait(LONG)  # what came before it
    assert not changes.wait(0)

    with followed.write() as session:
        for _ in range(3):
            add_wake_up(session, "training")
        session.flush()
        assert not changes.wait(0)  # not committed yet
    assert changes.wait(LONG)
    with followed.read() as session:
        assert len(pending_wake_ups(session)) == 3
    assert not changes.wait(0)

    with pytest.raises(InterruptedError), followed.write() as session:
        add_wake_up(session, "training")
        session.flush()
        raise InterruptedError

    assert not changes.wait(0)
    changes.close()


def test_an_interruption_ends_the_wait_of_another_thread(database: Database) -> None:
    changes = Changes(database)
    changes.wait(LONG)
    threading.Thread(target=changes.interrupt).start()

    assert changes.wait(LONG)
    assert not changes.wait(0)
    changes.close()
    changes.interrupt()  # nobody waits any more: no error


def test_a_process_with_a_thousand_open_files_still_hears(database: Database) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with ExitStack() as files:
            for _ in range(1024):  # beyond what select(2) takes
                files.enter_context(open("/dev/null", "rb"))
            changes = Changes(database)
            assert changes.wait(LONG)
            assert not changes.wait(0)

            with database.write() as session:
                add_wake_up(session, "training")

            assert changes.wait(LONG)
            changes.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_database_that_cannot_be_followed_may_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BLIND_SECONDS", 0.0)
    changes = Changes(Database("postgresql+psycopg://nobody@127.0.0.1:1/none"))

    assert changes.wait(LONG)
    assert changes.wait(LONG)
    changes.close()
