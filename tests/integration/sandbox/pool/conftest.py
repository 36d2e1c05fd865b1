"""A pool in each of its tiers."""

import os
from collections.abc import Iterator

import pytest

from services.sandbox.isolation.tier import Tier
from tests.support.programs.sandbox_pool import PoolInThread, running_pool

SECRET = "the-services-own-secret"


@pytest.fixture(
    scope="session", params=[Tier.FULL, pytest.param(Tier.CONTAINER, marks=pytest.mark.variant)]
)
def tier(request: pytest.FixtureRequest) -> Tier:
    chosen: Tier = request.param
    if chosen is Tier.CONTAINER and os.geteuid() != 0:
        pytest.skip("only root can give every program a user id of its own")
    return chosen


@pytest.fixture(scope="session")
def sandbox(tier: Tier) -> Iterator[PoolInThread]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPER_SECRET", SECRET)
        with running_pool(tier=tier) as pool:
            yield pool
