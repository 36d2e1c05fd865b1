"""Parameters of all routes: keys of repeated requests, and numbers that databases can hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.api.app import create_api
from services.api.settings import ApiSettings

_COMPUTES = "stores nothing: a repetition computes again"
_SAME_STATE = "a repetition finds the state that it asks for"
WITHOUT_KEY = {
    **dict.fromkeys(
        (
            *("/run_code", "/run_jupyter", "/v1/run_cases", "/retrieve", "/v1/search"),
            *("/v1/chat/completions", "/v1/completions", "/v1/embeddings"),
            *("/v1/messages", "/v1/messages/count_tokens", "/v1/fine_tuning/forecast"),
            "/v1/fine_tuning/alpha/graders/validate",
            "/v1/fine_tuning/alpha/graders/run",
            "/v1/evaluations/{job_id}/compare",
        ),
        _COMPUTES,
    ),
    **dict.fromkeys(
        (
            *("/v1/models/{model_id}/undeploy", "/v1/responses/{response_id}/cancel"),
            *("/v1/uploads/{upload_id}/complete", "/v1/uploads/{upload_id}/cancel"),
        ),
        _SAME_STATE,
    ),
    "/v1/fine_tuning/checkpoints/{checkpoint}/permissions": "permissions are not stored",
    "/v1/files/{file_id}/examples": "reads rows of a file",
    "/v1/uploads/{upload_id}/parts": "a part that is sent again is left out on completion",
    "/v1/responses": "a response is answered by its engine, as OpenAI's are: not repeated",
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home: Path = tmp_path_factory.mktemp("home")
    found: dict[str, Any] = create_api(ApiSettings(home=home)).app.openapi()["paths"]
    return found


def test_every_posting_route_honors_the_key_or_says_why_not(paths: dict[str, Any]) -> None:
    without = {
        path
        for path, methods in paths.items()
        if "post" in methods and "Idempotency-Key" not in _names(methods["post"])
    }
    assert without == WITHOUT_KEY.keys()


def _names(operation: dict[str, Any]) -> set[str]:
    return {each["name"] for each in operation.get("parameters", [])}


def test_every_integer_fits_into_a_database(paths: dict[str, Any]) -> None:
    for path, methods in paths.items():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                for schema in _integers(parameter["schema"]):
                    where = f"{path}: {parameter['name']}"
                    assert schema.get("minimum", -(2**64)) >= -(2**63), where
                    assert schema.get("maximum", 2**64) < 2**63, where


def _integers(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in (schema, *schema.get("anyOf", []), schema.get("items", {})):
        if each.get("type") == "integer":
            yield each
