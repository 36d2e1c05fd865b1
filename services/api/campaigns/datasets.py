"""The datasets of a campaign, with the files of registered ones."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from services.api.datasets.service import get_dataset, list_datasets
from services.contracts.campaigns.campaigns import CampaignDataset, CreateCampaign
from services.contracts.errors import InvalidRequest, NotFound
from services.models.registry import require_file

MAX_DATASETS = 50
"""Maximum number of datasets in a request."""


def datasets_of(session: Session, body: CreateCampaign) -> list[CampaignDataset]:
    """The named datasets, or all registered ones, with their files."""
    if body.datasets:
        return [_registered(session, number, each) for number, each in enumerate(body.datasets)]
    found = [CampaignDataset(name=row.name) for row in list_datasets(session)]
    if not found:
        message = "no data set is registered: name files, or use temper datasets add"
        raise InvalidRequest(message, param="datasets")
    if len(found) > MAX_DATASETS:
        message = f"{len(found)} data sets are registered: name up to {MAX_DATASETS} of them"
        raise InvalidRequest(message, param="datasets")
    return [_registered(session, number, each) for number, each in enumerate(found)]


def check_size(session: Session, datasets: Sequence[CampaignDataset], most: int) -> None:
    """Raise `InvalidRequest` for a missing file, or for more than ``most`` bytes."""
    total = sum(
        require_file(session, each.file, f"datasets[{number}].file").bytes
        for number, each in enumerate(datasets)
    )
    if total > most:
        raise InvalidRequest(
            f"the data sets have {total} bytes together, which is above "
            f"TEMPER_MAX_CAMPAIGN_DATA_BYTES ({most}): name fewer of them",
            param="datasets",
        )


def _registered(session: Session, number: int, given: CampaignDataset) -> CampaignDataset:
    if given.file:
        return given
    try:
        row = get_dataset(session, given.name)
    except NotFound as error:
        raise InvalidRequest(error.message, param=f"datasets[{number}].name") from None
    description = given.description or row.description
    return given.model_copy(update={"file": row.file_id, "description": description})
