"""Campaigns that use registered data sets."""

from collections.abc import Sequence
from typing import Any

import pytest

from services.api.campaigns.datasets import check_size, datasets_of
from services.api.datasets.service import register_dataset
from services.contracts.campaigns.campaigns import CampaignDataset, CreateCampaign
from services.contracts.data.datasets import DatasetStatistics, RegisterDataset, TokenStatistics
from services.contracts.errors import InvalidRequest
from services.core.db.engine import Database
from services.core.db.tables import FileRow
from tests.support.campaigns.run import REQUEST

TOKENS = TokenStatistics(total=1, mean=1.0, median=1, p95=1, longest=1)
STATISTICS = DatasetStatistics(rows=1, fields=[], tokens=TOKENS, samples=[])


def resolved(database: Database, given: Sequence[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Name, file and description of a campaign's data sets."""
    body = CreateCampaign.model_validate({**REQUEST, "datasets": given})
    with database.read() as session:
        return [(each.name, each.file, each.description) for each in datasets_of(session, body)]


def register(database: Database, name: str) -> None:
    with database.write() as session:
        row = {
            "filename": "f",
            "purpose": "user_data",
            "bytes": 1,
            "sha256": "0",
            "created_at": 1.0,
        }
        session.add(FileRow(id=f"file-{name}", **row))
        session.flush()
        body = RegisterDataset(name=name, file=f"file-{name}", description=f"About {name}.")
        register_dataset(session, body, STATISTICS)


def test_names_resolve_to_registered_data_sets(database: Database) -> None:
    register(database, "sums")
    given = [{"name": "sums"}, {"name": "own", "file": "file-1"}]

    assert resolved(database, given) == [
        ("sums", "file-sums", "About sums."),
        ("own", "file-1", ""),
    ]


def test_without_names_all_registered_data_sets_are_used(database: Database) -> None:
    with pytest.raises(InvalidRequest, match="no data set is registered"):
        resolved(database, [])
    register(database, "sums")
    register(database, "more")

    assert [name for name, _, _ in resolved(database, [])] == ["more", "sums"]


def test_data_over_the_operators_limit_is_rejected(database: Database) -> None:
    given = [CampaignDataset(name=name, file=f"file-{name}") for name in ("sums", "more")]
    for each in given:
        register(database, each.name)

    with database.read() as session:
        check_size(session, given, most=2)
        with pytest.raises(InvalidRequest, match="TEMPER_MAX_CAMPAIGN_DATA_BYTES") as refused:
            check_size(session, given, most=1)
    assert refused.value.param == "datasets"
