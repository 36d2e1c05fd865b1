"""A real SQLite database for every test."""

from tests.support.database import database

__all__ = ["database"]
