"""Responses of sessions and notebooks match the OpenAPI description for any request."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.schemas import OpenApiSchema

from services.core.web.auth import hash_key
from tests.support.openapi import TOO_STRICT, Case, check_answers, operations
from tests.support.sandbox import Sandbox, running_sandbox

KEY = "temper-openapi"
HEADERS = {"Authorization": f"Bearer {KEY}"}
EXAMPLES = 10
# Too many sessions is a 5xx status, but not an internal error.
EXCLUDED = (*TOO_STRICT, not_a_server_error)


@dataclass(frozen=True)
class Described:
    """A service with a session, and its OpenAPI description."""

    sandbox: Sandbox
    api: OpenApiSchema
    session: str


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    folder = tmp_path_factory.mktemp("openapi")
    settings = {
        "TEMPER_API_KEY_HASHES": hash_key(KEY),
        "TEMPER_SANDBOX_MAX_SESSIONS": "2",
    }
    with running_sandbox(folder, **settings) as sandbox:
        sandbox.http.headers.update(HEADERS)
        api = schemathesis.openapi.from_dict(sandbox.http.get("/openapi.json").json())
        # Parameters that a route does not know are ignored.
        api.config.generation.update(with_security_parameters=False, allow_extra_parameters=False)
        # The first session waits until the packages of kernels are imported.
        answer = sandbox.http.post("/v1/sessions", json={}, timeout=120)
        assert answer.status_code == 200, answer.text
        session = answer.json()["id"]
        yield Described(sandbox, api, session)
    assert "Traceback" not in Path(folder / "sandbox.log").read_text()


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_response_matches_openapi(
    described: Described, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    def use_session(case: Case) -> None:
        if "session_id" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["session_id"] = described.session

    for operation in operations(described.api):
        if "session" not in operation.path and "jupyter" not in operation.path:
            continue
        is_json = any(body.media_type == "application/json" for body in operation.body)
        if mode is GenerationMode.NEGATIVE and not is_json:
            continue  # no invalid request can be generated
        with subtests.test(operation.label):
            check_answers(
                operation,
                mode,
                described.sandbox.url,
                HEADERS,
                examples=EXAMPLES,
                excluded=EXCLUDED,
                adapt=use_session,
            )


def test_every_openapi_example_works(described: Described) -> None:
    document = described.sandbox.http.get("/openapi.json").json()
    for path in ("/run_jupyter", "/v1/sessions/{session_id}/execute"):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        for example in content["examples"].values():
            place = path.format(session_id=described.session)
            answer = described.sandbox.http.post(place, json=example["value"])
            assert answer.json()["status"] in ("Success", "ok"), answer.text
