"""Workers touch the file of health probes once the database has their heartbeat."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.jobs.worker import main
from services.jobs.worker.executor import ChildWork, Executor
from services.jobs.worker.settings import WorkerSettings


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    yield database
    database.close()


def beat_once(database: Database, file: Path, patch: pytest.MonkeyPatch) -> None:
    """The heartbeats of a worker that stops after the first."""
    settings = WorkerSettings(home=file.parent, heartbeat_file=file)
    executor = Executor(database, ChildWork(database, [], settings), settings)
    patch.setattr(executor.stopping, "wait", lambda _: executor.stopping.set())
    main._send_heartbeats(executor)


def test_a_worker_touches_its_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat_once(database, tmp_path / "heartbeat", monkeypatch)
    assert (tmp_path / "heartbeat").exists()


def test_a_worker_without_its_database_does_not(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("insert", {}, Exception("away"))

    monkeypatch.setattr(main, "heartbeat", away)
    beat_once(database, tmp_path / "heartbeat", monkeypatch)
    assert not (tmp_path / "heartbeat").exists()
