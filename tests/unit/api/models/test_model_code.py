"""A model with code of its own is rejected when it is named, not when its job runs."""

import json
from pathlib import Path

import pytest

from services.api.models.service import require_loadable
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.core.db.engine import Database
from services.core.db.tables import ModelRow


@pytest.fixture(autouse=True)
def models(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "own"
    folder.mkdir(parents=True)
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"A": "t.T"}}))
    with database.write() as session:
        session.add(ModelRow(id="own", kind="full", folder="own", created_at=0.0))
        session.add(ModelRow(id="distant", kind="full", hub_id="lab/own", created_at=0.0))
        session.add(ModelRow(id="gone", kind="full", folder="gone", created_at=0.0))


def test_the_refusal_names_the_field_of_the_request(database: Database, tmp_path: Path) -> None:
    with database.read() as session, pytest.raises(InvalidRequest, match="'own'") as caught:
        require_loadable(session, "own", ApiSettings(home=tmp_path), "teacher.model")

    assert (caught.value.param, caught.value.code) == ("teacher.model", "model_code_not_trusted")


@pytest.mark.parametrize("name", ["own", "distant", "gone"])
def test_trusted_models_and_those_not_here_yet_are_left_to_their_jobs(
    database: Database, tmp_path: Path, name: str
) -> None:
    settings = ApiSettings.model_validate({"home": tmp_path, "trusted_models": "own, hub:a/b"})

    with database.read() as session:
        assert require_loadable(session, name, settings).id == name
