"""The migration matches the tables."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from services.core.db.engine import Database
from services.core.db.migrate import MIGRATIONS, migrate, newest_revision
from services.core.db.tables import Base
from tests.support.servers import running_postgres


def differences(url: str) -> list[object]:
    database = Database(url)
    migrate(database)
    with database.engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    database.close()
    return list(found)


def test_the_migration_creates_the_tables_on_sqlite(tmp_path: Path) -> None:
    assert differences(f"sqlite:///{tmp_path / 'temper.db'}") == []


def test_the_migration_creates_the_tables_on_postgres() -> None:
    with running_postgres() as url:
        assert differences(url) == []


def test_a_new_database_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'home' / 'temper.db'}")
    migrate(database)

    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "home").iterdir()}

    assert modes == {0o600}
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700
    database.close()


def test_a_current_database_is_not_migrated_again_and_an_older_one_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded: list[str] = []
    monkeypatch.setattr("alembic.command.upgrade", lambda _, revision: upgraded.append(revision))

    migrate(database)
    assert upgraded == []

    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    migrate(database)
    assert upgraded == ["head"]


def test_the_newest_revision_is_the_head_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))

    assert ScriptDirectory.from_config(config).get_current_head() == newest_revision()
