"""Workers touch the file of health probes once the database has their heartbeat."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from services.campaigns.settings import CampaignSettings
from services.campaigns.worker import CampaignWorker
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.jobs.worker import main
from services.jobs.worker.settings import WorkerSettings


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    yield database
    database.close()


def beat_once(database: Database, file: Path, patch: pytest.MonkeyPatch) -> None:
    """The heartbeats of a worker that stops after the first."""
    executor = main.Executor(database, [], WorkerSettings(home=file.parent, heartbeat_file=file))
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


def test_the_worker_of_campaigns_touches_its_file(database: Database, tmp_path: Path) -> None:
    settings = CampaignSettings(home=tmp_path, heartbeat_file=tmp_path / "heartbeat")
    CampaignWorker(database, settings)._beat()
    assert (tmp_path / "heartbeat").exists()
