"""The OpenAPI description holds for what the gateway answers, whatever it is sent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.schemas import OpenApiSchema

from services.common.web.auth import hash_key
from tests.support.processes import running_gateway

KEY = "temper-openapi"
EXAMPLES = 25


@dataclass(frozen=True)
class Described:
    """A gateway that asks for a key, and its description of itself."""

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
    }
    with running_gateway(environment, folder / "gateway.log") as url:
        yield Described(url, httpx.get(f"{url}/openapi.json").json())


@pytest.fixture
def api(described: Described) -> OpenApiSchema:
    """The description, with the names of what exists among the values to try."""
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=described.url, headers=headers) as http:
        known = _populate(http)
    for path in described.document["paths"].values():
        for operation in path.values():
            operation["parameters"] = _parameters(operation, known)
    for body in described.document["components"]["schemas"].values():
        if body.get("additionalProperties") is False:  # of a request
            for field, schema in body["properties"].items():
                schema.update(known.get(field, {}))
    api = schemathesis.openapi.from_dict(described.document)
    # Parameters that a route does not know are ignored, as OpenAI does.
    api.config.generation.update(with_security_parameters=False, allow_extra_parameters=False)
    return api


def _populate(http: httpx.Client) -> dict[str, dict[str, Any]]:
    """Make one thing of each kind; return the schemas that name them, by field."""
    http.post("/v1/models", json={"id": "base", "folder": "base"})
    upload = {"file": ("rows.jsonl", b"{}\n")}
    file_id = http.post("/v1/files", files=upload, data={"purpose": "fine-tune"}).json()["id"]
    body = {"model": "base", "training_file": file_id}
    job_id = http.post("/v1/fine_tuning/jobs", json=body).json()["id"]
    body = {"model": "base", "file": file_id}
    evaluation_id = http.post("/v1/evaluations", json=body).json()["id"]
    files = {"enum": [file_id, "file-absent"]}
    return {
        "file_id": files,
        "training_file": files,
        "validation_file": files,
        "model": {"enum": ["base"]},
        "folder": {"enum": ["base"]},
        "model_id": {"enum": ["base", "owner/absent"]},
        "job_id": {"enum": [job_id, evaluation_id, "ftjob-absent"]},
        "llamafactory": {"maxProperties": 0},  # has a contract of its own
    }


def _parameters(operation: dict[str, Any], known: dict[str, Any]) -> list[dict[str, Any]]:
    """All but two: a stream ends with its job, which here never does, and a key works once."""
    kept = [
        parameter
        for parameter in operation.get("parameters", [])
        if parameter["name"] not in ("stream", "Idempotency-Key")
    ]
    for parameter in kept:
        parameter["schema"].update(known.get(parameter["name"], {}))
    return kept


Case = schemathesis.Case[Any]
# What the description cannot say, such as that a named file exists, may refuse a valid body.
TOO_STRICT = [positive_data_acceptance]


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_answer_is_as_described(
    api: OpenApiSchema, described: Described, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    for operation in _operations(api):
        if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body):
            continue  # any text will do for the rest

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Case) -> None:
            case.call_and_validate(
                base_url=described.url,
                headers={"Authorization": f"Bearer {KEY}"},
                excluded_checks=TOO_STRICT,
                timeout=20,
            )

        with subtests.test(operation.label):
            check()


def _operations(api: OpenApiSchema) -> Iterator[APIOperation[Any, Any, Any, Any]]:
    for result in api.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if not {"sandbox", "retrieval"} & set(operation.tags or ()):  # these answer, if they run
            yield operation
