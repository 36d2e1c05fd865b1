"""The migration matches the tables."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from services.contracts.errors import ConfigurationError
from services.core.db.engine import Database
from services.core.db.migrate import MIGRATIONS, migrate, newest_revision
from services.core.db.tables import Base
from tests.support.servers import running_postgres

BEFORE = Path(__file__).with_name("schema_0018.sql")
"""A database of the development version before 0.2, with a job, an event and a campaign."""


def schema(database: Database) -> dict[str, Any]:
    """Columns, keys and indexes by table, in an order of their own."""
    found = inspect(database.engine)
    return {
        table: [
            sorted(map(repr, part(table)))
            for part in (
                lambda name: [
                    {**column, "type": str(column["type"])} for column in found.get_columns(name)
                ],
                found.get_indexes,
                found.get_unique_constraints,
                found.get_foreign_keys,
                lambda name: [found.get_pk_constraint(name)],
            )
        ]
        for table in found.get_table_names()
    }


def differences(url: str) -> list[object]:
    database = Database(url)
    migrate(database)
    with database.engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    database.close()
    return list(found)


def test_the_migration_creates_the_tables_on_sqlite(tmp_path: Path) -> None:
    assert differences(f"sqlite:///{tmp_path / 'temper.db'}") == []


@pytest.mark.variant
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

    monkeypatch.setattr("services.core.db.migrate.newest_revision", lambda: "9999")
    migrate(database)
    assert upgraded == ["head"]


@pytest.mark.parametrize("revision", ["0007", "9999"])
def test_the_schema_of_another_version_is_refused_and_kept(
    database: Database, revision: str
) -> None:
    with database.write() as session:
        session.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))

    with pytest.raises(ConfigurationError, match=f"has the schema {revision}, .* from 0018"):
        migrate(database)


def test_a_database_of_the_version_before_gets_the_schema_of_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "before.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(BEFORE.read_text())
    before, new = (Database(f"sqlite:///{tmp_path / name}") for name in ("before.db", "new.db"))
    migrate(before)
    migrate(new)

    assert schema(before) == schema(new)
    with before.read() as session:
        assert session.scalars(text("SELECT id FROM jobs")).all() == ["ftjob-kept"]
    before.close()
    new.close()


def test_the_newest_revision_is_the_head_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))

    assert ScriptDirectory.from_config(config).get_current_head() == newest_revision()
