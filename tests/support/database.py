"""A real SQLite database for every test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.core.db.engine import Database
from services.core.db.migrate import migrate


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    yield database
    database.close()
