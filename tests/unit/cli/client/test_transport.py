import json
import socket

import pytest
from fastapi.responses import JSONResponse, Response

from services.contracts.models.registered import RegisterModel
from services.contracts.training.fine_tuning import CreateFineTuningJob
from temper.client import ApiError, ClientError, Temper, UnexpectedAnswer, Unreachable
from tests.unit.cli.conftest import ScriptedServer

MODEL = {"id": "tiny", "created": 1, "owned_by": "operator", "kind": "full"}
AWAY = Response(status_code=503, headers={"Retry-After": "0"})


def test_an_error_body_becomes_a_typed_exception(client: Temper, server: ScriptedServer) -> None:
    body = {"error": {"message": "no model", "type": "x", "param": "id", "code": "not_found"}}
    server.on("/v1/models/a", JSONResponse(body, 404, headers={"x-request-id": "req-1"}))

    with pytest.raises(ApiError) as caught:
        client.models.get("a")

    error = caught.value
    assert (error.status, error.code, error.param) == (404, "not_found", "id")
    assert (error.message, error.request_id) == ("no model", "req-1")


def test_an_error_without_a_body_is_still_typed(client: Temper, server: ScriptedServer) -> None:
    server.on("/v1/models/a", Response("<html>", 500))

    with pytest.raises(ApiError) as caught:
        client.models.get("a")

    assert caught.value.code == "http_500"


def test_reads_are_retried_while_the_gateway_is_unreachable(
    client: Temper, server: ScriptedServer
) -> None:
    server.on("/v1/models/tiny", AWAY, AWAY, JSONResponse(MODEL))

    assert client.models.get("tiny").id == "tiny"


def test_retries_are_bounded(client: Temper, server: ScriptedServer) -> None:
    server.on("/v1/models/tiny", AWAY)

    with pytest.raises(ApiError) as caught:
        client.models.get("tiny")

    assert caught.value.status == 503


def test_should_retry_false_is_respected(client: Temper, server: ScriptedServer) -> None:
    server.on("/v1/models/tiny", Response(status_code=429, headers={"x-should-retry": "false"}))

    with pytest.raises(ApiError):
        client.models.get("tiny")

    assert len(server.received) == 1


def test_a_retried_create_keeps_its_idempotency_key(client: Temper, server: ScriptedServer) -> None:
    server.on("/v1/models", AWAY, JSONResponse(MODEL))

    client.models.register(RegisterModel(id="tiny", folder="tiny"))

    keys = [request.headers["idempotency-key"] for request in server.received]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_two_creates_have_two_idempotency_keys(client: Temper, server: ScriptedServer) -> None:
    server.on("/v1/models", JSONResponse(MODEL))

    client.models.register(RegisterModel(id="tiny", folder="tiny"))
    client.models.register(RegisterModel(id="tiny", folder="tiny"))

    assert len({request.headers["idempotency-key"] for request in server.received}) == 2


def test_a_delete_is_sent_once(client: Temper, server: ScriptedServer) -> None:
    server.on("/v1/models/tiny", AWAY)

    with pytest.raises(ApiError):
        client.models.delete("tiny")

    assert len(server.received) == 1


def test_a_body_carries_the_discriminators_of_its_unions(
    client: Temper, server: ScriptedServer
) -> None:
    server.on("/v1/fine_tuning/jobs", Response(status_code=400))

    with pytest.raises(ApiError):
        client.fine_tuning.create(CreateFineTuningJob(model="m", training_file="file-1"))

    assert json.loads(server.received[0].body)["model"] == "m"


def test_the_api_key_is_sent_as_bearer_token(server: ScriptedServer) -> None:
    server.on("/v1/models/tiny", JSONResponse(MODEL))

    with Temper(server.url, "secret") as client:
        client.models.get("tiny")

    assert server.received[0].headers["authorization"] == "Bearer secret"


def test_a_key_that_no_header_can_carry_is_rejected() -> None:
    with pytest.raises(ClientError, match="outside of ASCII"):
        Temper("http://127.0.0.1:8080", "schlüssel")


def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as kept:  # a reserved port without a listener
        kept.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{kept.getsockname()[1]}"
        with Temper(address) as client, pytest.raises(Unreachable):
            client.models.delete("tiny")


def test_an_unexpected_response_names_the_invalid_field(
    client: Temper, server: ScriptedServer
) -> None:
    server.on("/v1/models/tiny", JSONResponse({"id": "tiny"}))

    with pytest.raises(UnexpectedAnswer, match="created"):
        client.models.get("tiny")


@pytest.mark.parametrize("address", ["localhost:8080", "ftp://host", "http://host:port", ""])
def test_an_invalid_gateway_url_is_rejected(address: str) -> None:
    with pytest.raises(ClientError, match="not a gateway URL"):
        Temper(address)


def test_pages_are_concatenated(client: Temper, server: ScriptedServer) -> None:
    def page(*ids: str, more: bool) -> JSONResponse:
        items = [{**MODEL, "id": name} for name in ids]
        return JSONResponse({"object": "list", "data": items, "has_more": more})

    server.on("/v1/models", page("a", "b", more=True), page("c", more=True))

    answer = client.models.page(most=3)

    assert [model.id for model in answer.data] == ["a", "b", "c"]
    assert (answer.has_more, answer.last_id) == (True, "c")
