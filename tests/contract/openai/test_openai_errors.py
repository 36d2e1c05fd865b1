"""Error classes and messages that callers of the ``openai`` package see."""

import uuid
from collections.abc import Iterator

import httpx
import openai
import pytest


def create(client: openai.OpenAI, file_id: str, **fields: object) -> object:
    body = {"model": "base", "training_file": file_id, **fields}
    return client.post("/fine_tuning/jobs", body=body, cast_to=object)


def test_an_unknown_job_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.fine_tuning.jobs.retrieve("ftjob-unknown")

    assert caught.value.code == "job_not_found"
    assert "ftjob-unknown" in caught.value.message


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"model": "absent"}, "model", "model_not_found"),
        ({"training_file": "file-absent"}, "training_file", "file_not_found"),
        ({"validation_file": "file-absent"}, "validation_file", "file_not_found"),
        ({"training_file": "hf://datasets/../etc"}, "training_file", "invalid_request"),
        ({"modell": "x"}, "modell", "invalid_request"),
        ({"seed": -1}, "seed", "invalid_request"),
        ({"suffix": "a b"}, "suffix", "invalid_request"),
        ({"method": {"type": "ppo2"}}, "method.type", "invalid_request"),
        ({"metadata": {"a": "x" * 513}}, "metadata", "invalid_request"),
        (
            {"method": {"supervised": {"hyperparameters": {"n_epochs": "many"}}}},
            "method.supervised.hyperparameters.n_epochs",
            "invalid_request",
        ),
        (
            {"hyperparameters": {"llamafactory": {"lerning_rate": 1}}},
            "method.supervised.hyperparameters.llamafactory.lerning_rate",
            "invalid_llamafactory_argument",
        ),
    ],
)
def test_a_bad_request_names_its_field(
    client: openai.OpenAI, training_file: str, fields: dict[str, object], param: str, code: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, training_file, **fields)

    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.type == "invalid_request_error"


def test_a_missing_field_is_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/fine_tuning/jobs", body={"model": "base"}, cast_to=object)

    assert caught.value.param == "training_file"
    assert caught.value.message.startswith("Error code: 400")


def test_a_file_of_another_purpose_is_rejected(client: openai.OpenAI) -> None:
    file = client.files.create(file=("a.jsonl", b"{}"), purpose="evals")

    with pytest.raises(openai.BadRequestError) as caught:
        create(client, file.id)

    assert caught.value.param == "training_file"


@pytest.mark.parametrize("limit", [0, -1, 101, 10**30])
def test_a_limit_out_of_range_is_rejected(client: openai.OpenAI, limit: int) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.fine_tuning.jobs.list(limit=limit)

    assert caught.value.param == "limit"


def test_a_remote_model_needs_the_operators_permission(client: openai.OpenAI) -> None:
    file = client.files.create(file=("a.jsonl", b"{}"), purpose="evals")
    model = {"base_url": "http://169.254.169.254/v1", "model": "m"}

    with pytest.raises(openai.PermissionDeniedError) as caught:
        client.post("/evaluations", body={"model": model, "file": file.id}, cast_to=object)

    assert caught.value.param == "model.base_url"


def test_every_response_carries_its_request_id(client: openai.OpenAI, training_file: str) -> None:
    mine = f"trace-{uuid.uuid4()}"

    known = client.files.retrieve(training_file)
    marked = client.files.retrieve(training_file, extra_headers={"x-request-id": mine})
    with pytest.raises(openai.NotFoundError) as caught:
        client.files.retrieve("file-absent")

    assert str(known._request_id).startswith("req-")
    assert marked._request_id == mine
    assert str(caught.value.request_id).startswith("req-")


@pytest.fixture
def counted(url: str) -> Iterator[tuple[openai.OpenAI, list[httpx.Request]]]:
    """A client with the package's default retries, and the requests it sends."""
    sent: list[httpx.Request] = []
    transport = openai.DefaultHttpxClient(event_hooks={"request": [sent.append]})
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", http_client=transport) as client:
        yield client, sent


def test_a_conflict_is_not_retried(
    counted: tuple[openai.OpenAI, list[httpx.Request]], training_file: str
) -> None:
    client, sent = counted
    key = {"Idempotency-Key": str(uuid.uuid4())}
    client.files.create(file=("a", b"1"), purpose="evals", extra_headers=key)
    sent.clear()

    with pytest.raises(openai.ConflictError) as caught:
        client.files.create(file=("a", b"2"), purpose="evals", extra_headers=key)

    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(sent) == 1
