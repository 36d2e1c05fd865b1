"""Dataset scripts run only where the operator has a folder of them."""

from pathlib import Path
from typing import Any

import pytest

from services.api.fine_tuning.service import create_fine_tuning_job
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.db.engine import Database
from services.core.db.tables import ModelRow


@pytest.fixture(autouse=True)
def model(database: Database) -> None:
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", hub_id="lab/base", created_at=0.0))


def create(database: Database, settings: ApiSettings, **fields: Any) -> str:
    body = {"model": "base", "training_file": "script:mine.py", **fields}
    with database.write() as session:
        request = CreateFineTuningJob.model_validate(body)
        return create_fine_tuning_job(session, request, settings).id


def test_a_script_without_the_operators_folder_is_denied(
    database: Database, tmp_path: Path
) -> None:
    with pytest.raises(PermissionDenied, match="TEMPER_DATASET_SCRIPTS") as caught:
        create(database, ApiSettings(home=tmp_path))

    assert caught.value.param == "training_file"


def test_a_script_is_named_like_a_file_in_every_field(database: Database, tmp_path: Path) -> None:
    settings = ApiSettings(home=tmp_path, dataset_scripts=tmp_path)

    assert create(database, settings, validation_files={"math": "script:math#test"})
    with pytest.raises(InvalidRequest) as caught:
        create(database, settings, validation_files={"math": "script:../math.py"})
    assert caught.value.param == "validation_files.math"
