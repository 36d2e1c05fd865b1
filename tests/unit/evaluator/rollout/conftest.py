from tests.support.database import database

__all__ = ["database"]
