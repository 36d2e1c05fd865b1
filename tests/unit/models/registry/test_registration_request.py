"""What a registration of a model may name."""

import pytest
from pydantic import ValidationError

from services.contracts.models.registered import RegisterModel


@pytest.mark.parametrize("revision", ["../../../etc/x", "a/..", "..", "/etc/x"])
def test_a_revision_cannot_leave_the_cache_of_its_repository(revision: str) -> None:
    with pytest.raises(ValidationError, match="revision"):
        RegisterModel(id="m", hub_id="owner/model", revision=revision)


@pytest.mark.parametrize("revision", ["main", "refs/pr/3", "v1.0", "0a1b2c"])
def test_branches_tags_and_commits_are_revisions(revision: str) -> None:
    assert RegisterModel(id="m", hub_id="owner/model", revision=revision).revision == revision
