"""Evaluations may call remote models at allowed origins only, not at look-alikes."""

import pytest
from pydantic import ValidationError

from services.api.batches.service import create_batch
from services.api.evaluations.service import create_evaluation
from services.api.rollouts.service import create_rollout
from services.api.settings import ApiSettings
from services.contracts.batches.batches import CreateBatch
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.rollouts.rollouts import CreateRollout
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.jobs.job import REMOTE_SLOT

ALLOWED = "https://Models.example.com, http://127.0.0.1:8000/,http://[::1]:9000"


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> ApiSettings:
    monkeypatch.setenv("TEMPER_ALLOWED_ENDPOINTS", ALLOWED)
    return ApiSettings()


@pytest.fixture
def file_id(database: Database) -> str:
    row = FileRow(
        id="file-1", filename="a", purpose="evals", bytes=1, sha256="0" * 64, created_at=0.0
    )
    with database.write() as session:
        session.add(row)
    return "file-1"


def create(database: Database, file_id: str, settings: ApiSettings, base_url: str) -> int | None:
    """Create an evaluation of a remote model; return the devices it requests."""
    body = CreateEvaluation.model_validate(
        {"model": {"base_url": base_url, "model": "m"}, "file": file_id, "gpus": 4}
    )
    with database.write() as session:
        return create_evaluation(session, body, settings).gpus


def test_devices_for_a_remote_model_are_rejected(
    database: Database, file_id: str, settings: ApiSettings
) -> None:
    model = {"base_url": "http://127.0.0.1:8000/v1", "model": "m"}
    body = CreateEvaluation.model_validate({"model": model, "file": file_id, "devices": [0]})

    with database.write() as session, pytest.raises(InvalidRequest) as error:
        create_evaluation(session, body, settings)

    assert error.value.param == "devices"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"devices": [0, 0]}, "names a GPU twice"),
        ({"devices": [0, 1], "gpus": 1}, "devices names 2 GPUs, but gpus is 1"),
        ({"devices": []}, "at least 1 item"),
        ({"devices": ["0; rm"]}, "should match pattern"),
    ],
)
def test_inconsistent_devices_are_rejected_with_a_reason(
    fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        CreateEvaluation.model_validate({"model": "m", "file": "file-1", **fields})


def test_origins_are_normalized_to_include_the_port(settings: ApiSettings) -> None:
    assert settings.allowed_endpoints == [
        "https://models.example.com:443",
        "http://127.0.0.1:8000",
        "http://[::1]:9000",
    ]


@pytest.mark.parametrize(
    "base_url",
    [
        "https://models.example.com/v1",
        "https://models.example.com:443/v1",
        "https://MODELS.EXAMPLE.COM/deep/path/v1",
        "HTTPS://models.example.com",
        "http://127.0.0.1:8000/v1",
        "http://2130706433:8000/v1",
        "http://[::1]:9000/v1",
        "http://[0:0:0:0:0:0:0:1]:9000/v1",
    ],
)
def test_an_evaluation_of_an_allowed_origin_needs_no_device(
    database: Database, file_id: str, settings: ApiSettings, base_url: str
) -> None:
    assert create(database, file_id, settings, base_url) == REMOTE_SLOT


@pytest.mark.parametrize(
    "base_url",
    [
        "http://models.example.com/v1",
        "https://models.example.com:8443/v1",
        "https://models.example.com.evil.example/v1",
        "https://evil.example/models.example.com/v1",
        "https://evil.example#https://models.example.com:443",
        "https://evil.example\\@models.example.com/v1",
        "https://models.example.com./v1",
        "https://sub.models.example.com/v1",
        "http://127.0.0.1/v1",
        "http://127.0.0.2:8000/v1",
        "http://localhost:8000/v1",
        "http://169.254.169.254/latest",
        "http://[::ffff:127.0.0.1]:8000/v1",
    ],
)
def test_other_origins_are_rejected(
    database: Database, file_id: str, settings: ApiSettings, base_url: str
) -> None:
    with pytest.raises((PermissionDenied, InvalidRequest)) as caught:
        create(database, file_id, settings, base_url)

    assert caught.value.param == "model.base_url"


@pytest.mark.parametrize(
    "base_url",
    [
        "https://user:secret@models.example.com/v1",
        "https://user@models.example.com/v1",
        "https://evil.example@models.example.com/v1",
        "https://models.example.com/v1?key=secret",
        "https://models.example.com/v1#part",
    ],
)
def test_urls_with_credentials_query_or_fragment_are_rejected(
    database: Database, file_id: str, settings: ApiSettings, base_url: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        create(database, file_id, settings, base_url)

    assert caught.value.param == "model.base_url"
    assert "secret" not in caught.value.message


def test_no_origin_is_allowed_by_default(
    database: Database, file_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPER_ALLOWED_ENDPOINTS", raising=False)

    with pytest.raises(PermissionDenied):
        create(database, file_id, ApiSettings(), "http://127.0.0.1:8000/v1")


@pytest.mark.parametrize(
    "setting",
    ["models.example.com", "ftp://a", "http://a/v1", "http://u:p@a", "http://a?x", "http://"],
)
def test_an_invalid_origin_in_the_settings_is_rejected(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("TEMPER_ALLOWED_ENDPOINTS", f"https://fine.example,{setting}")

    with pytest.raises(ValidationError):
        ApiSettings()


@pytest.mark.parametrize(
    ("reward", "gpus"),
    [
        ({"type": "retool"}, REMOTE_SLOT),
        ({"type": "reward_model", "model": "judge"}, 0),  # computed by this host
    ],
)
def test_a_rollout_of_a_remote_model_takes_a_remote_slot_unless_it_computes_here(
    reward: dict[str, str], gpus: int, database: Database, file_id: str, settings: ApiSettings
) -> None:
    with database.write() as session:
        session.add(ModelRow(id="judge", kind="full", folder="judge", created_at=0.0))
    body = {
        "model": {"base_url": "http://127.0.0.1:8000/v1", "model": "m"},
        "tokenizer": "judge",
        "file": file_id,
        "rewards": [{"name": "right", "reward": reward}],
    }

    with database.write() as session:
        job = create_rollout(session, CreateRollout.model_validate(body), settings)

    assert job.gpus == gpus


def test_a_batch_for_a_remote_server_takes_a_remote_slot(
    database: Database, file_id: str, settings: ApiSettings
) -> None:
    body = {
        "input_file_id": file_id,
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "base_url": "http://127.0.0.1:8000/v1",
    }

    with database.write() as session:
        job = create_batch(session, CreateBatch.model_validate(body), settings)

    assert job.gpus == REMOTE_SLOT
