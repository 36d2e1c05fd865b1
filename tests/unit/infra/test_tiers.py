"""Tiers: which tests a target runs."""

import pytest

from services.core.process.runtimes import REPOSITORY
from tests.support import tiers


@pytest.mark.parametrize("names", ["DRILLS", "SPREAD", "TOGETHER"])
def test_a_run_names_the_moved_file_that_a_tier_lists(
    monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setattr(tiers, names, (*getattr(tiers, names), "tests/unit/test_moved.py"))

    with pytest.raises(pytest.UsageError, match=r"tests/unit/test_moved\.py"):
        tiers.check_paths(REPOSITORY)
