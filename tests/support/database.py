"""A real SQLite database for every test that asks for one.

A conftest.py imports both fixtures. Migrations run once per process; each test gets a copy.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.core.db.engine import Database
from services.core.db.migrate import migrate


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty database with the schema of this release."""
    file: Path = tmp_path_factory.mktemp("migrated") / "temper.db"
    database = Database(f"sqlite:///{file}")
    migrate(database)
    database.close()
    return file


@pytest.fixture
def database(migrated: Path, tmp_path: Path) -> Iterator[Database]:
    """A database of the test's own in ``temper.db`` of its folder."""
    shutil.copy(migrated, tmp_path / "temper.db")
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    yield database
    database.close()
