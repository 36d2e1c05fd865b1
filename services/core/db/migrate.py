"""Migrate a database to the schema of this release."""

from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from services.contracts.errors import ConfigurationError
from services.core.db.engine import Database

MIGRATION_LOCK = 7_403_915_220_114
MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(database: Database) -> None:
    """Apply the missing migrations; safe when several processes start concurrently.

    Raises `ConfigurationError` for the schema of a version that this one cannot upgrade.
    """
    found = _found(database)
    if found == [newest_revision()]:
        return
    if unknown := set(found) - set(_revisions()):
        raise ConfigurationError(
            f"the database has the schema {', '.join(sorted(unknown))}, and this version upgrades "
            f"from {min(_revisions())} or later up to {newest_revision()}: use the version that "
            "wrote it, or a new database"
        )
    # Most starts do not need it: it would take a tenth of a worker's memory for good.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    with database.write() as session:
        connection = session.connection()
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def newest_revision() -> str:
    """Return the revision of this release: the number in the name of its last migration."""
    return max(_revisions())


def _revisions() -> list[str]:
    names = (path.stem for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))
    return [name.partition("_")[0] for name in names]


def _found(database: Database) -> list[str]:
    """The revision of the database's schema; none of a new database."""
    try:
        with database.read() as session:
            return list(session.scalars(text("SELECT version_num FROM alembic_version")))
    except SQLAlchemyError:  # a new database, or one that the migration reports as broken
        return []
