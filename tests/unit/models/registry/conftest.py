"""A real SQLite database for every test."""

from tests.support.database import database, migrated

__all__ = ["database", "migrated"]
