"""Migrate a database to the schema of this release."""

from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from services.core.db.engine import Database

MIGRATION_LOCK = 7_403_915_220_114
MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(database: Database) -> None:
    """Apply the missing migrations; safe when several processes start concurrently."""
    if _is_current(database):
        return
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
    names = (path.stem for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))
    return max(names).partition("_")[0]


def _is_current(database: Database) -> bool:
    try:
        with database.read() as session:
            found = session.scalars(text("SELECT version_num FROM alembic_version")).all()
    except SQLAlchemyError:  # a new database, or one that the migration reports as broken
        return False
    return found == [newest_revision()]
