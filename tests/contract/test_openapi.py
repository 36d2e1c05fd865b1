"""Responses of the gateway match the OpenAPI description for any request."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.schemas import OpenApiSchema

from services.core.web.auth import hash_key
from tests.support.openapi import check_answers, operations
from tests.support.processes import running_gateway

KEY = "temper-openapi"
HEADERS = {"Authorization": f"Bearer {KEY}"}
EXAMPLES = 25


@dataclass(frozen=True)
class Described:
    """A gateway that requires a key, and its OpenAPI description."""

    url: str
    document: dict[str, Any]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    folder = tmp_path_factory.mktemp("openapi")
    model = folder / "home" / "models" / "base"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").touch()
    environment = {
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_API_KEY_HASHES": hash_key(KEY),
        "TEMPER_ALLOWED_ENDPOINTS": "http://127.0.0.1:9",
        "TEMPER_SERVING_WAIT_SECONDS": "0",  # no worker starts an engine
    }
    with running_gateway(environment, folder / "gateway.log") as url:
        yield Described(url, httpx.get(f"{url}/openapi.json", timeout=60).json())


@pytest.fixture(params=list(GenerationMode))
def mode(request: pytest.FixtureRequest) -> GenerationMode:
    mode: GenerationMode = request.param
    return mode


@pytest.fixture
def api(described: Described, mode: GenerationMode) -> OpenApiSchema:
    """The description, with existing ids among the generated values."""
    document = copy.deepcopy(described.document)
    with httpx.Client(base_url=described.url, headers=HEADERS, timeout=60) as http:
        known = _populate(http)
    for path in document["paths"].values():
        for operation in path.values():
            operation["parameters"] = _parameters(operation, known)
    if mode is GenerationMode.NEGATIVE:
        # A body with the id of nothing violates this test's choice of ids alone.
        known = {"llamafactory": known["llamafactory"]}
    for body in document["components"]["schemas"].values():
        if body.get("additionalProperties") is False:  # of a request
            for field, schema in body["properties"].items():
                schema.update(known.get(field, {}))
    api = schemathesis.openapi.from_dict(document)
    # Parameters that a route does not know are ignored, as OpenAI does.
    api.config.generation.update(with_security_parameters=False, allow_extra_parameters=False)
    # Text over its length limit can exceed the limit of any body.
    api.config.checks.negative_data_rejection.expected_statuses.append("413")
    return api


def _populate(http: httpx.Client) -> dict[str, dict[str, Any]]:
    """Create one object of each kind; return schemas of their ids by field."""
    http.post("/v1/models", json={"id": "base", "folder": "base"})
    upload = {"file": ("rows.jsonl", b"{}\n")}
    file_id = http.post("/v1/files", files=upload, data={"purpose": "fine-tune"}).json()["id"]
    body = {"model": "base", "training_file": file_id}
    job_id = http.post("/v1/fine_tuning/jobs", json=body).json()["id"]
    body = {"model": "base", "file": file_id}
    evaluation_id = http.post("/v1/evaluations", json=body).json()["id"]
    rollout_id = http.post("/v1/rollouts", json=body).json()["id"]
    files = {"enum": [file_id, "file-absent"]}
    return {
        "file_id": files,
        "training_file": files,
        "validation_file": files,
        "model": {"enum": ["base"]},
        "folder": {"enum": ["base"]},
        "model_id": {"enum": ["base", "owner/absent"]},
        "job_id": {"enum": [job_id, evaluation_id, rollout_id, "ftjob-absent"]},
        "llamafactory": {"maxProperties": 0},  # tested separately
    }


def _parameters(operation: dict[str, Any], known: dict[str, Any]) -> list[dict[str, Any]]:
    """All parameters but two: streams would not end here, and an idempotency key works once."""
    kept = [
        parameter
        for parameter in operation.get("parameters", [])
        if parameter["name"] not in ("stream", "Idempotency-Key")
    ]
    for parameter in kept:
        parameter["schema"].update(known.get(parameter["name"], {}))
    return kept


def test_every_response_matches_openapi(
    api: OpenApiSchema, described: Described, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    for operation in operations(api):
        if {"sandbox", "retrieval"} & set(operation.tags or ()):
            continue  # their services do not run here
        if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
            continue  # no invalid request can be generated
        with subtests.test(operation.label):
            check_answers(operation, mode, described.url, HEADERS, examples=EXAMPLES)


def test_every_list_names_an_after_that_it_does_not_know(described: Described) -> None:
    given = {
        path: operations.get("get", {}).get("parameters", ())
        for path, operations in described.document["paths"].items()
    }
    lists = [
        path
        for path, parameters in given.items()
        if "after" in [each["name"] for each in parameters]
        and not any(each.get("required") for each in parameters)
    ]
    with httpx.Client(base_url=described.url, headers=HEADERS, timeout=60) as http:
        answers = {path: http.get(path, params={"after": "none"}).json() for path in lists}

    named = {path: answer.get("error", {}).get("param") for path, answer in answers.items()}
    assert named == dict.fromkeys(lists, "after")
    assert {"/v1/notes", "/v1/webhooks", "/v1/jobs", "/v1/files", "/v1/models"} < named.keys()
