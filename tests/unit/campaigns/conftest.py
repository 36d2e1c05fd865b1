"""A campaign in a real database, whose jobs and steps a test supplies."""

from pathlib import Path

import pytest

from services.core.db.engine import Database
from tests.support.campaigns.run import StoredCampaign
from tests.support.database import database, migrated

__all__ = ["campaign", "database", "migrated"]


@pytest.fixture
def campaign(database: Database, tmp_path: Path) -> StoredCampaign:
    """A queued campaign with 20 items and an LLM that must not be called."""
    return StoredCampaign(database, tmp_path / "home")
