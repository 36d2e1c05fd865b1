"""A real SQLite database for the tests of the handlers."""

from tests.support.database import database, migrated

__all__ = ["database", "migrated"]
