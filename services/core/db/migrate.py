"""Migrate a database to the schema of this release."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import text

from services.core.db.engine import Database

MIGRATION_LOCK = 7_403_915_220_114


def migrate(database: Database) -> None:
    """Apply the missing migrations; safe when several processes start concurrently."""
    with database.write() as session:
        connection = session.connection()
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
