"""Responses match the OpenAPI description for any request."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi.schemas import OpenApiSchema

from services.core.web.auth import hash_key
from tests.support.openapi import check_answers, operations
from tests.support.search.library import LIBRARY
from tests.support.search.service import Retrieval, build_index, running_retrieval

KEY = "temper-openapi"
HEADERS = {"Authorization": f"Bearer {KEY}"}
EXAMPLES = 10


@dataclass(frozen=True)
class Described:
    """A service that requires a key, and its OpenAPI description."""

    service: Retrieval
    api: OpenApiSchema


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    folder = tmp_path_factory.mktemp("openapi")
    build_index(folder / "indexes", "library", LIBRARY)
    build_index(folder / "indexes", "other", LIBRARY)
    keys = {"TEMPER_API_KEY_HASHES": hash_key(KEY)}
    with running_retrieval(folder, folder / "indexes", "library", LIBRARY, **keys) as service:
        document = service.http.get("/openapi.json").json()
        _restrict_index_names(document)
        _fix_timeout(document)
        api = schemathesis.openapi.from_dict(document)
        # Parameters that a route does not know are ignored.
        api.config.generation.update(with_security_parameters=False, allow_extra_parameters=False)
        yield Described(service, api)
    assert "Traceback" not in Path(folder / "retrieval.log").read_text()


def _restrict_index_names(document: dict[str, Any]) -> None:
    """Use one existing and one missing index; nearly all generated names would be missing."""
    for path, methods in document["paths"].items():
        if "{name}" in path:
            for operation in methods.values():
                for parameter in operation["parameters"]:
                    if parameter["name"] == "name":
                        parameter["schema"] = {"enum": ["other", "nowhere"]}


def _fix_timeout(document: dict[str, Any]) -> None:
    """Fix the timeout: a search with a tiny one is rightly a server error."""
    content = document["paths"]["/v1/search"]["post"]["requestBody"]["content"]
    content["application/json"]["schema"]["properties"]["timeout"] = {"const": 60}


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_response_matches_the_schema(
    described: Described, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    for operation in operations(described.api):
        if mode is GenerationMode.NEGATIVE and not operation.body:
            continue  # there is nothing to send
        with subtests.test(operation.label):
            check_answers(operation, mode, described.service.url, HEADERS, examples=EXAMPLES)


def test_every_openapi_example_works(described: Described) -> None:
    document = described.service.http.get("/openapi.json").json()
    for path in ("/retrieve", "/v1/search"):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        for example in content.get("examples", {}).values():
            body = {**example["value"], "index": None}  # this one has other passages
            answer = described.service.http.post(path, json=body, headers=HEADERS)
            assert answer.status_code == 200, answer.text
